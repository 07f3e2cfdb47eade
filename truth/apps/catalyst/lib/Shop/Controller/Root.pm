package Shop::Controller::Root;
use Moose;
use JSON;
use namespace::autoclean;

BEGIN { extends "Catalyst::Controller" }

__PACKAGE__->config(namespace => "");

my $habit = $ENV{HABIT} // "plain";
my $body = "x" x 1024;

sub index : Path : Args(0) {
    my ($self, $c) = @_;
    $c->response->content_type("text/plain; charset=utf-8");
    my $answer = $self->can($habit =~ tr/-/_/r);
    $self->$answer($c);
}

sub plain { $_[1]->response->body($body) }

# ---- valves with their counters, which belong to another table ----

sub list_of {
    my ($c, %with) = @_;
    my @valves = $c->model("Store")->resultset("Valve")->search({ "me.id" => { -between => [1, 10] } }, \%with)->all;
    $c->response->body(join "\n", map { $_->name . ": " . $_->counter->n } @valves);
}

sub counters_one_by_one { list_of($_[1]) }

sub counters_fetched_along { list_of($_[1], prefetch => "counter") }

# ---- a list for another program; whether JSON is Perl or C is up to $PERL_JSON_BACKEND ----

my @stock = map { { id => $_, name => "valve $_", note => "open and shut", states => ["open", "shut"] } } 1 .. 200;

sub stock { $_[1]->response->body(JSON->new->canonical->encode(\@stock)) }

# ---- a page of a template ----

sub page {
    my ($self, $c) = @_;
    $c->stash(valves => [@stock[0 .. 59]], template => "list.tt");
    $c->forward("Shop::View::Page");
}

__PACKAGE__->meta->make_immutable;

1;
