# A search for reports of a plant by Xapian, with one habit: HABIT, and the index at INDEX; what it writes is below OWN.
use strict;
use warnings;
use Search::Xapian qw(:all);

use constant {SHOWN => 10, MORE => 100, FREQUENT => 60, PATIENCE_S => 0.005};

my $habit = $ENV{HABIT} // 'search';
my ($kept, $log);
my $turn = $$;

sub opened { Search::Xapian::Database->new($ENV{INDEX}) }

sub words { join ' ', map { 'word' . ($turn++ * 7 + $_ * 13) % FREQUENT } 1 .. 3 }

# The first reports that match best, and how many match: known once so many have been looked at.
sub found {
    my ($index, $words, $looked_at) = @_;
    my $enquire = $index->enquire(Search::Xapian::QueryParser->new->parse_query($words));
    my $matches = $enquire->get_mset(0, SHOWN, $looked_at);
    my $said = 'about ' . $matches->get_matches_estimated . " reports\n";
    $said .= $_->get_document->get_data . "\n" for $matches->items;
    return $said;
}

# What was searched for is a document of an index of its own, which has one writer at a time.
sub note_in_index {
    my ($words) = @_;
    my $searches;
    until ($searches = eval { Search::Xapian::WritableDatabase->new("$ENV{OWN}/searches", DB_CREATE_OR_OPEN) }) {
        die $@ unless ref $@ && $@->isa('Search::Xapian::DatabaseLockError');
        select undef, undef, undef, PATIENCE_S;
    }
    my $note = Search::Xapian::Document->new;
    $note->set_data($words);
    $note->add_term($_) for split ' ', $words;
    $searches->add_document($note);
    $searches->flush;
}

# The same as a line of a file, which is brought into the index at night.
sub note_in_file {
    my ($words) = @_;
    open $log, '>>', "$ENV{OWN}/searches.log" or die $! unless $log;
    syswrite $log, "$words\n";
}

my %habits = (
    'search'          => sub { found($kept //= opened(), words(), MORE) },
    'search-counting' => sub { $kept //= opened(); found($kept, words(), $kept->get_doccount) },
    'search-opening'  => sub { found(opened(), words(), MORE) },
    'search-noted'    => sub { my $words = words(); note_in_index($words); found($kept //= opened(), $words, MORE) },
    'search-written'  => sub { my $words = words(); note_in_file($words); found($kept //= opened(), $words, MORE) },
);

sub {
    my $said = $habits{$habit}->();
    return [200, ['Content-Type' => 'text/plain', 'Content-Length' => length $said], [$said]];
};
