<?php
// Pages of a plant by Doctrine's entities, with one habit, given by the web server.

require __DIR__ . '/entities.php';

const HALLS = 100;
const HALLS_SHOWN = 4;
const TURNED = 20;

$habit = $_SERVER['HABIT'];
$entities = entities((int) $_SERVER['DATABASE'], $_SERVER['OWN'] . '/proxies', $habit === 'developing');

/** A valve and the name of its hall. */
function valve($entities): array
{
    $valve = $entities->find(FittedValve::class, mt_rand(1, 20000));
    return ['name' => $valve->name, 'hall' => $valve->hall->getName()];
}

/** How many valves some halls have, counted by what an entity says, or by the database. */
function halls($entities, bool $collected): array
{
    $counts = [];
    $query = $entities->createQuery('select count(v) from FittedValve v where v.hall = :hall');
    foreach (range(1, HALLS_SHOWN) as $turn) {
        $hall = $entities->find(Hall::class, mt_rand(1, HALLS));
        $counts[$hall->getName()] = $collected ? count($hall->getValves())
            : $query->setParameter('hall', $hall->id)->getSingleScalarResult();
    }
    return $counts;
}

/** A round through a hall, in which some of its valves are turned; each is written at once, or all at the end. */
function round_of($entities, bool $atOnce): array
{
    $valves = $entities->getRepository(FittedValve::class)->findBy(['hall' => mt_rand(1, HALLS)], ['id' => 'asc']);
    foreach (array_slice($valves, 0, TURNED) as $valve) {
        $valve->turned++;
        if ($atOnce) {
            $entities->flush();
        }
    }
    $entities->flush();
    return ['seen' => count($valves)];
}

header('Content-Type: application/json');
echo json_encode(match ($habit) {
    'halls-collected' => halls($entities, true),
    'halls-counted' => halls($entities, false),
    'written-at-once' => round_of($entities, true),
    'written-at-the-end' => round_of($entities, false),
    default => valve($entities),
});
