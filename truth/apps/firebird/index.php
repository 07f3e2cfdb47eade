<?php
// Orders of a plant, whose database is Firebird, with one habit, given by the web server.

const ATTEMPTS = 200, PRINTS_US = 3_000;

$kept = $_SERVER['HABIT'] !== 'attached';
$plant = new PDO("firebird:dbname=127.0.0.1/{$_SERVER['FIREBIRD']}:plant", 'TRUTH', 'open',
    [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_PERSISTENT => $kept]);
$number = mt_rand(1, 20_000);

/** One row by its number. */
function note(PDO $plant, int $number): string
{
    return $plant->query("select note from valves where id = $number")->fetchColumn();
}

/** A valve by its name, in whatever letters somebody has written it. */
function named(PDO $plant, int $number): string
{
    $query = $plant->prepare('select note from valves where upper(name) = upper(?)');
    $query->execute(["valve $number"]);
    return $query->fetchColumn();
}

/** An order is printed under its number before anybody else may see it. */
function printed(int $number): string
{
    usleep(PRINTS_US);
    return "order $number";
}

/** The next number is what a row says; who comes at the same time as somebody else tries again. */
function order_by_row(PDO $plant): string
{
    for ($left = ATTEMPTS; ; $left--) {
        $plant->beginTransaction();
        try {
            $text = printed($plant->query('update numbers set n = n + 1 where id = 1 returning n')->fetchColumn());
            $plant->commit();
            return $text;
        } catch (PDOException $conflict) {
            $plant->rollBack();
            if ($left === 0) {
                throw $conflict;
            }
        }
    }
}

/** The next number is a sequence's, which belongs to no transaction. */
function order_by_sequence(PDO $plant): string
{
    return printed($plant->query('select next value for orders from rdb$database')->fetchColumn());
}

echo match ($_SERVER['HABIT']) {
    'named' => named($plant, $number),
    'order-by-row' => order_by_row($plant),
    'order-by-sequence' => order_by_sequence($plant),
    default => note($plant, $number),
} . "\n";
