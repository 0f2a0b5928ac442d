-- The tables of a file of corrections; `Corrections` creates those that are absent.
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS decisions (
    id INTEGER PRIMARY KEY,
    time TEXT NOT NULL,
    kind TEXT NOT NULL CHECK (kind IN ('confirmed', 'corrected', 'skipped', 'undone')),
    bag TEXT NOT NULL,
    row INTEGER NOT NULL,   -- of the instance inside its bag, from 0
    size INTEGER NOT NULL,  -- instances of the bag at that time
    label TEXT,             -- the label a person gave
    guess TEXT,             -- the prediction of the model
    probability REAL,       -- and how sure it was
    undoes INTEGER REFERENCES decisions (id),
    CHECK (0 <= row AND row < size)
);
CREATE VIEW IF NOT EXISTS standing AS
    SELECT * FROM decisions
    WHERE kind != 'undone' AND id NOT IN (SELECT undoes FROM decisions WHERE undoes IS NOT NULL);
CREATE VIEW IF NOT EXISTS corrections AS
    SELECT bag, row, size, label FROM standing
    WHERE kind IN ('confirmed', 'corrected')
    AND id = (
        SELECT max(id) FROM standing AS s
        WHERE s.bag = standing.bag AND s.row = standing.row AND s.kind != 'skipped'
    )
    ORDER BY id;
CREATE INDEX IF NOT EXISTS by_instance ON decisions (bag, row);
-- Decisions about label sets of bags, since version 2.
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
PRAGMA application_id = 1650550643;
PRAGMA user_version = 2;
COMMIT;
