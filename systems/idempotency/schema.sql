-- Nanoseconds of the store's clock.
CREATE FUNCTION ns(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
  AS 'SELECT (extract(epoch FROM at) * 1000000)::bigint * 1000';

-- The provider's: written by provider.go alone, on connections of its own. No transaction of a
-- design can undo a charge.
CREATE TABLE provider_charges (
  seq bigserial PRIMARY KEY,
  reference text NOT NULL,
  op_id bigint NOT NULL,
  key text NOT NULL,
  customer text NOT NULL,
  amount bigint NOT NULL,
  receipt text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What the provider is asked by.
CREATE INDEX provider_references ON provider_charges (reference);

-- The highest fence that the provider has seen of a reference.
CREATE TABLE provider_fences (
  reference text PRIMARY KEY,
  fence bigint NOT NULL
);

-- The tokens of claims. They rise over all keys, so that a key that was forgotten and is used
-- again has higher ones than before.
CREATE SEQUENCE claim_fences;

-- The shop's keys. The request is kept so that it can be finished without its client.
CREATE TABLE keys (
  key text PRIMARY KEY,
  fingerprint text NOT NULL,
  op_id bigint NOT NULL,
  method text NOT NULL,
  path text NOT NULL,
  body bytea NOT NULL,
  state text NOT NULL DEFAULT 'started',
  fence bigint NOT NULL DEFAULT nextval('claim_fences'),
  locked_until timestamptz NOT NULL,
  note bytea,
  status int,
  type text,
  answer bytea,
  done_at timestamptz,
  expires_at timestamptz
) WITH (fillfactor = 70);

-- What the reaper and the completer look for.
CREATE INDEX keys_expire ON keys (expires_at) WHERE state = 'done';
CREATE INDEX keys_open ON keys (locked_until) WHERE state <> 'done';

-- Keys that were forgotten, written by the store itself.
CREATE TABLE gone (
  op_id bigint NOT NULL,
  key text NOT NULL,
  answer bytea,
  done_at timestamptz,
  gone_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION log_gone() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO gone (op_id, key, answer, done_at) VALUES (OLD.op_id, OLD.key, OLD.answer, OLD.done_at);
  RETURN NULL;
END $$;

CREATE TRIGGER log_gone AFTER DELETE ON keys FOR EACH ROW EXECUTE FUNCTION log_gone();
