-- Nanoseconds of the store's clock.
CREATE FUNCTION ns(at timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
  AS 'SELECT (extract(epoch FROM at) * 1000000)::bigint * 1000';

-- The provider's: written by provider.go alone, on connections of its own. No transaction of a
-- design can undo a payment.
CREATE TABLE provider_keys (
  key text PRIMARY KEY,
  fingerprint text NOT NULL,
  status int NOT NULL DEFAULT 0,
  type text NOT NULL DEFAULT '',
  answer bytea NOT NULL DEFAULT ''
);

CREATE TABLE provider_payments (
  seq bigserial PRIMARY KEY,
  key text NOT NULL,
  kind text NOT NULL,
  amount bigint NOT NULL
);
CREATE INDEX provider_payments_key ON provider_payments (key);

CREATE TABLE provider_callbacks (
  seq bigserial PRIMARY KEY,
  key text NOT NULL,
  captured boolean NOT NULL
);

-- The stock. Each change counts version up.
CREATE TABLE inventory (
  product int PRIMARY KEY,
  available bigint NOT NULL,
  version bigint NOT NULL DEFAULT 1
) WITH (fillfactor = 50);

-- How far each waiting room is: up to which place attempts were admitted, and how many. Places are
-- dealt by a sequence for each product (see open_sale), which nobody waits for.
CREATE TABLE room (
  product int PRIMARY KEY,
  admitted_to bigint NOT NULL DEFAULT 0,
  admitted bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

CREATE TABLE attempts (
  op_id bigint PRIMARY KEY,
  key text NOT NULL UNIQUE,
  seq bigint NOT NULL,
  token text NOT NULL GENERATED ALWAYS AS (product || '.' || seq || '.' || key) STORED,
  user_id text NOT NULL,
  ip text NOT NULL,
  product int NOT NULL,
  state text NOT NULL,
  admit_seq bigint NOT NULL DEFAULT 0,
  passed_ns bigint NOT NULL DEFAULT 0,
  made_at timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 70);

-- One attempt of a user at a product, until it has ended without a unit.
CREATE UNIQUE INDEX attempts_user ON attempts (user_id, product)
  WHERE state NOT IN ('refused', 'compensated', 'left');

-- Who waits, in order, and who is at the checkout.
CREATE INDEX attempts_waiting ON attempts (product, seq) WHERE state = 'waiting';
CREATE INDEX attempts_admitted ON attempts (product) WHERE state = 'admitted';

CREATE TABLE steps (
  seq bigserial PRIMARY KEY,
  op_id bigint NOT NULL,
  token text NOT NULL,
  before text NOT NULL,
  state text NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Every change of an attempt, written by the store itself.
CREATE FUNCTION log_step() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO steps (op_id, token, before, state) VALUES (NEW.op_id, NEW.token,
    CASE WHEN TG_OP = 'INSERT' THEN '' ELSE OLD.state END, NEW.state);
  RETURN NULL;
END $$;
CREATE TRIGGER attempt_made AFTER INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION log_step();
CREATE TRIGGER attempt_changed AFTER UPDATE OF state ON attempts FOR EACH ROW
  EXECUTE FUNCTION log_step();

CREATE TABLE orders (
  order_id bigserial PRIMARY KEY,
  key text NOT NULL UNIQUE,
  op_id bigint NOT NULL,
  user_id text NOT NULL,
  product int NOT NULL,
  state text NOT NULL DEFAULT 'pending',
  tries int NOT NULL DEFAULT 0,
  due timestamptz NOT NULL DEFAULT clock_timestamp(),
  made_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  ended_at timestamptz
) WITH (fillfactor = 70);

-- One order of a user for a product, unless it was cancelled.
CREATE UNIQUE INDEX orders_user ON orders (user_id, product) WHERE state <> 'cancelled';

-- What was done about orders beyond the stock: units bought for them, or the keys of those that
-- were cancelled.
CREATE TABLE settlements (
  seq bigserial PRIMARY KEY,
  product int NOT NULL,
  restocked bigint NOT NULL,
  cancelled text[] NOT NULL,
  at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Whose payment is not settled.
CREATE INDEX orders_due ON orders (due) WHERE state IN ('pending', 'cancelling');

CREATE FUNCTION open_sale(products int, units bigint) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO inventory (product, available) SELECT p, units FROM generate_series(1, products) AS p;
  INSERT INTO room (product) SELECT p FROM generate_series(1, products) AS p;
  FOR p IN 1..products LOOP
    EXECUTE format('CREATE SEQUENCE IF NOT EXISTS places_%s OWNED BY room.product', p);
  END LOOP;
END $$;
