# The habits of the Twiggy cases, by the environment: HABIT, DATABASE, SERVICE and OWN.
use strict;
use warnings;
use AnyEvent;
use AnyEvent::HTTP;
use DBI;
use DBD::Pg qw(:async);
use JSON::XS;

my $habit = $ENV{HABIT} // 'plain';
my %by_number = (
    'valve-by-text' => 'select note from valves where id::text = ?',
    'valve'         => 'select note from valves where id = ?',
);
my (@idle, @waiting);
our %timers;
my $next = 0;

sub answer { [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $_[0]], [$_[0]]] }

# Connections to the database that the loop watches, each with its statement.
sub connect_all {
    for (1 .. 8) {
        my $where = "dbi:Pg:host=127.0.0.1;port=$ENV{DATABASE};dbname=postgres";
        my $database = DBI->connect($where, 'truth', '', {RaiseError => 1});
        my $statement = $database->prepare($by_number{$habit}, {pg_async => PG_ASYNC});
        push @idle, {database => $database, statement => $statement};
    }
}

sub valve {
    my ($respond) = @_;
    my $one = pop @idle or return push @waiting, $respond;
    $one->{statement}->execute(1 + $next++ * 7 % 20_000);
    $one->{watch} = AE::io $one->{database}{pg_socket}, 0, sub {
        return unless $one->{database}->pg_ready;
        delete $one->{watch};
        $one->{database}->pg_result;
        my ($note) = $one->{statement}->fetchrow_array;
        push @idle, $one;
        $respond->(answer("$note\n"));
        valve(shift @waiting) if @waiting;
    };
}

# What the service says of each hall.
my @halls = qw(east north south west);

sub hall { http_get "http://127.0.0.1:$ENV{SERVICE}/?$_[0]", $_[1] }

sub told { answer(join('', map { "$_: " . length($_[0]{$_} // '') . " bytes\n" } @halls)) }

# One hall is asked about when the one before it has been answered.
sub halls_in_turn {
    my ($respond, $found, @left) = @_;
    return $respond->(told($found)) unless @left;
    my $name = shift @left;
    hall($name, sub { $found->{$name} = $_[0]; halls_in_turn($respond, $found, @left) });
}

sub halls_at_once {
    my ($respond) = @_;
    my %found;
    my $all = AE::cv { $respond->(told(\%found)) };
    for my $name (@halls) {
        $all->begin;
        hall($name, sub { $found{$name} = $_[0]; $all->end });
    }
}

# Visitors, of whom a file tells after each second: all of them, or those who came since.
my %visitors = map { ("visitor $_" => {name => "visitor $_", seen => 0, pages => ['/', "/valves/$_"]}) } 1 .. 40_000;
my %changed;

sub save {
    my ($what) = @_;
    open my $file, '>', "$ENV{OWN}/visitors.json" or die $!;
    print $file JSON::XS->new->canonical->encode($what);
    close $file;
}

sub visit {
    my $name = 'visitor ' . (1 + $next++ % 40_000);
    $visitors{$name}{seen}++;
    $changed{$name} = $visitors{$name};
    answer("$name\n");
}

if ($by_number{$habit}) {
    connect_all();
}
$AnyEvent::HTTP::MAX_PER_HOST = 64;
if ($habit =~ /^visitors/) {
    $timers{save} = AE::timer 1, 1, sub {
        save($habit eq 'visitors-all' ? \%visitors : \%changed);
        %changed = ();
    };
}

sub {
    my ($env) = @_;
    return sub { valve($_[0]) } if $by_number{$habit};
    return sub { halls_in_turn($_[0], {}, @halls) } if $habit eq 'halls-in-turn';
    return sub { halls_at_once($_[0]) } if $habit eq 'halls';
    return visit() if $habit =~ /^visitors/;
    return answer("open and shut\n");
};
