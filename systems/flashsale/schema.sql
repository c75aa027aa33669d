-- The ledger of a flash sale: Postgres, READ COMMITTED. Every state change and
-- its line in order_log share a transaction, and every time is the database's
-- own clock, so that no application clock can expire a cart early.
--
-- There are no foreign keys on the buying path: each would take a share lock
-- on the item's row, and a thousand buyers sharing one row's lock is the
-- contention that the designs here are about. What they would guard is
-- guarded by the statements, which read the item and the unit they refer to.

-- One row for each item. The statement that buys reads it by its key.
CREATE TABLE items (
    item        text   PRIMARY KEY,
    units       bigint NOT NULL CHECK (units >= 0),
    price_cents bigint NOT NULL CHECK (price_cents > 0),
    -- The counter designs' stock; the designs that keep units leave it alone.
    available   bigint NOT NULL,
    -- The optimistic design's version of the row.
    version     bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50); -- room to update the hot row in place (HOT)

-- One row for each unit on the shelf. The version grows by one with each
-- change of state.
CREATE TABLE units (
    item     text   NOT NULL REFERENCES items,
    unit_no  bigint NOT NULL CHECK (unit_no > 0),
    state    text   NOT NULL DEFAULT 'available'
             CHECK (state IN ('available', 'held', 'sold')),
    order_id bigint,
    version  bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (item, unit_no),
    CHECK ((state = 'available') = (order_id IS NULL))
);
-- The shelf: claims take its first unlocked entry, "sold out" is its emptiness.
CREATE INDEX units_on_shelf ON units (item, unit_no) WHERE state = 'available';

-- One row for each cart. Payments find it by id, repeated requests by op_id.
CREATE TABLE orders (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    op_id     bigint      NOT NULL, -- the idempotency key, its 64 bits as signed
    item      text        NOT NULL,
    buyer     text        NOT NULL,
    unit_no   bigint      NOT NULL, -- 0 if the design keeps no units
    state     text        NOT NULL CHECK (state IN ('held', 'paid', 'expired', 'failed')),
    held_at   timestamptz NOT NULL,
    closed_at timestamptz,
    CHECK ((state = 'held') = (closed_at IS NULL))
);
-- The same key gives the same order, also to requests that race.
CREATE UNIQUE INDEX orders_op ON orders (op_id);
-- One unit for each buyer and item; counts of active orders read it too.
CREATE UNIQUE INDEX orders_active ON orders (item, buyer) WHERE state IN ('held', 'paid');
-- The reclaimer reads the carts in the order in which they expire.
CREATE INDEX orders_expiry ON orders (held_at) WHERE state = 'held';

-- One row for each payment, however often its webhook is delivered.
CREATE TABLE payments (
    id           text    PRIMARY KEY,
    order_id     bigint  NOT NULL,
    amount_cents bigint  NOT NULL,
    captured     boolean NOT NULL,
    refunded     boolean NOT NULL,
    result       text    NOT NULL CHECK (result IN ('sold', 'released', 'refunded')),
    deliveries   bigint  NOT NULL,
    effects      bigint  NOT NULL
);

-- The history of every order and unit. Writers hold the lock of the order's
-- or unit's row when they take seq and the time, so both are in the order of
-- the changes for one unit and for one order; across units they need not be
-- in the order of the commits. It has no index: only an audit reads it, once.
CREATE TABLE order_log (
    seq        bigint GENERATED ALWAYS AS IDENTITY,
    order_id   bigint      NOT NULL,
    item       text        NOT NULL,
    unit_no    bigint      NOT NULL,
    version    bigint      NOT NULL, -- the unit's, after the change
    from_state text        NOT NULL,
    to_state   text        NOT NULL,
    cause      text        NOT NULL,
    at         timestamptz NOT NULL
);

-- How far each line of the queued design is decided: the offset in Kafka after
-- its last ticket with an order or a refusal. The transaction that decides
-- tickets locks the row and moves it, so each is decided once. Other designs
-- leave it empty.
CREATE TABLE lines (
    line        int    PRIMARY KEY,
    next_offset bigint NOT NULL
);
