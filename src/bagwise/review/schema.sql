-- The tables of a file of corrections; `bagwise.review.Corrections` creates them in a transaction.
BEGIN IMMEDIATE;
CREATE TABLE decisions (
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
CREATE VIEW standing AS
    SELECT * FROM decisions
    WHERE kind != 'undone' AND id NOT IN (SELECT undoes FROM decisions WHERE undoes IS NOT NULL);
CREATE VIEW corrections AS
    SELECT bag, row, size, label FROM standing
    WHERE kind IN ('confirmed', 'corrected')
    AND id = (
        SELECT max(id) FROM standing AS s
        WHERE s.bag = standing.bag AND s.row = standing.row AND s.kind != 'skipped'
    )
    ORDER BY id;
CREATE INDEX by_instance ON decisions (bag, row);
{sets}
PRAGMA application_id = {application};
PRAGMA user_version = {version};
COMMIT;
