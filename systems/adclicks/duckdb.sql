-- Decides every click of the Parquet files of a partition, in the order of the log. Files may overlap.
-- What a decider remembers from click to click is here a rank among the clicks that are alike.
WITH clicks AS (
    SELECT DISTINCT ON ("offset") *, "at" - "at" % $1 AS window_ms FROM read_parquet('FILES')
), aged AS (
    -- By how much the watermark is past the end of the window.
    SELECT *, coalesce(max("at") OVER (ORDER BY "offset"
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), 0) - $2 - window_ms - $1 AS age FROM clicks
), copies AS (
    SELECT *, row_number() OVER (PARTITION BY click, age >= $3 ORDER BY "offset") AS copy FROM aged
), ranked AS (
    SELECT *, row_number() OVER (PARTITION BY campaign, ad, ip, window_ms, age >= $3, copy > 1
        ORDER BY "offset") AS nth FROM copies
)
SELECT "offset", op, click, campaign, ad, "user", ip, "at", cents, window_ms,
    CASE WHEN age >= $3 THEN 'late' WHEN copy > 1 THEN 'duplicate' WHEN nth > $4 THEN 'fraud'
        WHEN age >= 0 THEN 'corrected' ELSE 'counted' END
FROM ranked ORDER BY "offset"
