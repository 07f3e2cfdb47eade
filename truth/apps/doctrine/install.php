<?php
// Makes the tables of a plant's entities, fills them, and writes their proxies: install.php DATABASE_PORT PROXIES.

require __DIR__ . '/entities.php';

const HALLS = 100;
const VALVES = 20000;
const OTHERS = ['makers', 'materials', 'fitters', 'circuits', 'drawings'];

$entities = entities((int) $argv[1], $argv[2], false);
$database = $entities->getConnection();
foreach (['halls', ...OTHERS] as $table) {
    $database->executeStatement("create table $table (id int primary key, name varchar(255) not null,
        note varchar(255) not null)");
    $database->executeStatement("insert into $table select n, '$table ' || n, 'open and shut'
        from generate_series(1, " . HALLS . ') n');
}
$columns = implode(', ', array_map(fn ($table) => substr($table, 0, -1) . '_id int not null', ['halls', ...OTHERS]));
$numbers = implode(', ', array_fill(0, count(OTHERS) + 1, 'n % ' . HALLS . ' + 1'));
$database->executeStatement("create table fitted (id int primary key, name varchar(255) not null, note varchar(255) not null,
    turned int not null, $columns) with (fillfactor = 50)");
$database->executeStatement("insert into fitted select n, 'valve ' || n, 'open and shut', 0, $numbers
    from generate_series(1, " . VALVES . ') n');
$database->executeStatement('create index fitted_in on fitted (hall_id)');
$database->executeStatement('vacuum analyze');
$entities->getProxyFactory()->generateProxyClasses($entities->getMetadataFactory()->getAllMetadata());
