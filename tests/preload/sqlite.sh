#!/bin/bash
# sqlite3: a database in memory and one on disc, with indices, recursive queries, triggers, text search and JSON.
source "$(dirname "$0")/common.sh"
need sqlite3

cat >"$work/input" <<'SQL'
pragma cache_size = -8000;
create table item(id integer primary key, name text, weight real, note blob);
create index item_name on item(name, weight);
begin;
with recursive n(i) as (select 1 union all select i + 1 from n where i < 60000)
insert into item select i, 'name ' || (i * 7919 % 5003), (i * 31 % 997) / 10.0, zeroblob(i % 300) from n;
commit;
create table audit(id integer, old text, new text);
create trigger changed after update of name on item begin insert into audit values(old.id, old.name, new.name); end;
update item set name = upper(name) || id where id % 7 = 0;
delete from item where id % 11 = 0;
select count(*), count(distinct name), round(sum(weight), 3), sum(length(note)) from item;
select count(*), min(new), max(new) from audit;
select name, count(*) c from item group by name order by c desc, name limit 10;
select group_concat(name, ';') from (select name from item where weight > 99.5 order by name, id limit 300);
with recursive s(x, t) as (select 1, 'a' union all select x + 1, t || char(97 + x % 26) from s where x < 3000)
select x, length(t), substr(t, -10) from s order by x desc limit 3;
create virtual table words using fts5(body);
insert into words select name || ' ' || id from item where id < 20000;
select count(*) from words where words match 'name';
select json_array_length(json_group_array(json_object('i', id, 'n', name))) from item where id < 5000;
select a.id, b.id from item a join item b on a.name = b.name and a.id < b.id order by 1, 2 limit 20;
attach 'copy.db' as copy;
create table copy.item as select * from item;
vacuum copy;
pragma copy.integrity_check;
select * from no_such_table;
SQL
same sqlite3 sqlite3 :memory:
same_files sqlite3
served sqlite3 sqlite3 :memory:
