-- The number of the last change. Who makes one locks the row until the commit, so that numbers are
-- in the order of commits and have no gaps.
CREATE TABLE head (seq bigint NOT NULL) WITH (fillfactor = 50); -- updated all the time

-- Every change.
CREATE TABLE changes (
    seq         bigint  PRIMARY KEY, -- what is after one that is known
    doc         bigint  NOT NULL,
    version     bigint  NOT NULL,
    deleted     boolean NOT NULL,
    title       text    NOT NULL,
    tags        text    NOT NULL,
    description text    NOT NULL,
    body        text    NOT NULL
);

-- The last change of each document, also if that deleted it.
CREATE TABLE documents (
    doc     bigint   PRIMARY KEY,
    seq     bigint   NOT NULL,
    version bigint   NOT NULL,
    deleted boolean  NOT NULL,
    terms   tsvector -- of postgres_fts
);

-- Makes a change, and returns its number; 0 if its version is not above the document's. A repeat of
-- the document's last change changes nothing and returns its number.
CREATE FUNCTION change(
    a_doc bigint, a_version bigint, a_deleted boolean,
    a_title text, a_tags text, a_description text, a_body text, a_terms tsvector
) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    number bigint;
BEGIN
    UPDATE head SET seq = seq + 1 RETURNING seq INTO number;
    INSERT INTO documents AS d VALUES (a_doc, number, a_version, a_deleted, a_terms)
        ON CONFLICT (doc) DO UPDATE SET seq = excluded.seq, version = excluded.version,
            deleted = excluded.deleted, terms = excluded.terms
        WHERE d.version < excluded.version;
    IF NOT FOUND THEN
        UPDATE head SET seq = seq - 1;
        SELECT d.seq INTO number FROM documents d
            WHERE d.doc = a_doc AND d.version = a_version AND d.deleted = a_deleted;
        RETURN coalesce(number, 0);
    END IF;
    INSERT INTO changes
        VALUES (number, a_doc, a_version, a_deleted, a_title, a_tags, a_description, a_body);
    RETURN number;
END
$$;
