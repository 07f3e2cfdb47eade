<?php
// What a plant has, as entities of Doctrine: a valve knows its hall and five others, each loaded when it is asked.

use Doctrine\Common\Collections\ArrayCollection;
use Doctrine\Common\Collections\Collection;
use Doctrine\ORM\Mapping as ORM;

#[ORM\MappedSuperclass]
abstract class Named
{
    #[ORM\Id, ORM\Column]
    public int $id;

    #[ORM\Column]
    public string $name;

    #[ORM\Column]
    public string $note;

    public function getName(): string
    {
        return $this->name;
    }
}

#[ORM\Entity, ORM\Table(name: 'makers')]
class Maker extends Named
{
}

#[ORM\Entity, ORM\Table(name: 'materials')]
class Material extends Named
{
}

#[ORM\Entity, ORM\Table(name: 'fitters')]
class Fitter extends Named
{
}

#[ORM\Entity, ORM\Table(name: 'circuits')]
class Circuit extends Named
{
}

#[ORM\Entity, ORM\Table(name: 'drawings')]
class Drawing extends Named
{
}

#[ORM\Entity, ORM\Table(name: 'halls')]
class Hall extends Named
{
    #[ORM\OneToMany(targetEntity: FittedValve::class, mappedBy: 'hall')]
    public Collection $valves;

    public function __construct()
    {
        $this->valves = new ArrayCollection();
    }

    public function getValves(): Collection
    {
        return $this->valves;
    }
}

#[ORM\Entity, ORM\Table(name: 'fitted')]
class FittedValve extends Named
{
    #[ORM\Column]
    public int $turned;

    #[ORM\ManyToOne]
    public Hall $hall;

    #[ORM\ManyToOne]
    public Maker $maker;

    #[ORM\ManyToOne]
    public Material $material;

    #[ORM\ManyToOne]
    public Fitter $fitter;

    #[ORM\ManyToOne]
    public Circuit $circuit;

    #[ORM\ManyToOne]
    public Drawing $drawing;
}
