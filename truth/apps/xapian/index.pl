# Writes the index of a plant's reports: index.pl DIRECTORY.
use strict;
use warnings;
use Search::Xapian qw(:all);

my ($directory) = @ARGV;
use constant {REPORTS => 30_000, LONG => 40, WORDS => 1500};

my $index = Search::Xapian::WritableDatabase->new($directory, DB_CREATE_OR_OVERWRITE);
my $terms = Search::Xapian::TermGenerator->new;
srand 7;
for my $n (1 .. REPORTS) {
    # Low numbers are frequent, as in prose.
    my $text = join ' ', map { 'word' . int(WORDS * rand() ** 3) } 1 .. LONG;
    my $report = Search::Xapian::Document->new;
    $terms->set_document($report);
    $terms->index_text($text);
    $report->set_data("report $n of hall " . $n % 40 . ": $text");
    $index->add_document($report);
}
$index->flush;
