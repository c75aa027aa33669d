CREATE EXTENSION IF NOT EXISTS pg_trgm;
CREATE EXTENSION IF NOT EXISTS fuzzystrmatch;

-- The newest slot of the log, NULL before there is one.
CREATE TABLE clock (slot bigint);
INSERT INTO clock VALUES (NULL);

-- How often each phrase was searched for in each slot that counts.
CREATE TABLE slots (
    slot   bigint,
    phrase text COLLATE "C",
    n      bigint NOT NULL,
    PRIMARY KEY (slot, phrase) -- what leaves a window
);
CREATE INDEX slots_phrase ON slots (phrase); -- what is counted anew

-- The index: in the order of bytes a prefix is a range.
CREATE TABLE phrases (
    phrase text COLLATE "C" PRIMARY KEY,
    recent bigint NOT NULL,
    before bigint NOT NULL,
    score  bigint NOT NULL
);
CREATE INDEX phrases_trigrams ON phrases USING gin (phrase gin_trgm_ops); -- wrong prefixes

-- When users last searched for their phrases.
CREATE TABLE owned (
    user_id  bigint,
    phrase   text COLLATE "C",
    position bigint NOT NULL,
    PRIMARY KEY (user_id, phrase)
);
