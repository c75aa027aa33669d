-- Nanoseconds of the store's clock.
CREATE FUNCTION ns(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
  AS 'SELECT (extract(epoch FROM at) * 1000000)::bigint * 1000';

-- A hold, and the booking that it becomes. Its identity is that of the operation that asked.
CREATE TABLE holds (
  hold_id bigint PRIMARY KEY,
  resource int NOT NULL,
  unit int NOT NULL, -- 0: decided on arrival
  first int NOT NULL,
  nights int NOT NULL,
  guest text NOT NULL,
  state text NOT NULL DEFAULT 'held',
  version bigint NOT NULL DEFAULT 1,
  held_at timestamptz NOT NULL,
  expires_at timestamptz NOT NULL,
  confirm_op bigint NOT NULL DEFAULT 0,
  confirmed_at timestamptz,
  end_op bigint NOT NULL DEFAULT 0,
  ended_at timestamptz
);

-- What the expirer looks for.
CREATE INDEX holds_due ON holds (expires_at) WHERE state = 'held';

-- Who has a place, for designs that have no other stock.
CREATE INDEX holds_live ON holds (resource, unit, first) WHERE state IN ('held', 'confirmed');

-- Every change, written by the store itself, so that no design can forget one. at is read after
-- whatever the change had to wait for, and before its commit.
CREATE TABLE changes (
  seq bigserial PRIMARY KEY,
  hold_id bigint NOT NULL,
  before text NOT NULL,
  state text NOT NULL,
  version bigint NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE FUNCTION log_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO changes (hold_id, before, state, version)
  VALUES (NEW.hold_id, CASE TG_OP WHEN 'INSERT' THEN '' ELSE OLD.state END, NEW.state, NEW.version);
  RETURN NULL;
END $$;

CREATE TRIGGER log_change AFTER INSERT OR UPDATE ON holds
  FOR EACH ROW EXECUTE FUNCTION log_change();
