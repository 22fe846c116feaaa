-- A table with indexes, strings, JSON and joins: what a database in memory asks of malloc.
.output /dev/null
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, grp INTEGER, price REAL, note TEXT);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 150000)
INSERT INTO item SELECT i, 'name-' || (i * 7919 % 100003), i % 997, i * 0.37,
  substr('abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz', i % 26, i % 25 + 5) FROM n;
CREATE INDEX item_name ON item(name);
CREATE INDEX item_grp ON item(grp, price);
SELECT grp, count(*), sum(price), group_concat(name) FROM item GROUP BY grp ORDER BY 3 DESC;
UPDATE item SET note = note || '-' || upper(name) || printf('%08d', id) WHERE id % 3 = 0;
SELECT a.name, b.note FROM item a JOIN item b ON a.name = b.name AND a.id < b.id ORDER BY b.note LIMIT 20000;
SELECT json_group_array(json_object('id', id, 'name', name, 'note', note)) FROM item WHERE id % 4 = 0;
SELECT upper(name) || replace(note, 'a', 'bb'), count(*) FROM item GROUP BY 1 ORDER BY 2 DESC LIMIT 1000;
DELETE FROM item WHERE id % 2 = 0;
SELECT count(DISTINCT note), max(length(note)) FROM item;
