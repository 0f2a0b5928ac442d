-- Decisions about label sets of bags, since version 2 of a file of corrections.
CREATE TABLE IF NOT EXISTS set_decisions (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    bag TEXT NOT NULL,
    label TEXT NOT NULL,
    present INTEGER CHECK (present IN (0, 1)),  -- whether the bag has the label; null: undone
    doubt REAL                                  -- probability that the set is wrong
);
CREATE VIEW IF NOT EXISTS set_corrections AS
    SELECT bag, label, present FROM set_decisions AS d
    WHERE present IS NOT NULL AND id = (
        SELECT max(id) FROM set_decisions AS s WHERE s.bag = d.bag AND s.label = d.label
    )
    ORDER BY id;
