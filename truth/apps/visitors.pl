# A script for mod_perl's registry, with one habit, named by $HABIT of the request.
use strict;
use warnings;
use POSIX qw(strftime floor);
use Time::Local qw(timegm);

my $r = shift;

sub page_of {
    my ($title, @rows) = @_;
    my $list = join "\n", map { "<li>$_</li>" } @rows;
    return "<html><head><title>$title</title></head><body><ul>$list</ul></body></html>";
}

sub day_of {
    my $second = shift;
    return strftime("%Y-%m-%d", gmtime($second));
}

sub week_of {
    my $second = shift;
    my @parts = gmtime($second);
    return floor(($parts[7] + 7 - ($parts[6] + 6) % 7) / 7);
}

sub valves {
    my $began = timegm(0, 0, 0, 1, 0, 2024);
    return map { sprintf "valve %d, seen on %s in week %d", $_, day_of($began + $_ * 86400), week_of($began) } 1 .. 5;
}

# What somebody wrote, with many blanks in it, as it was pasted from a table.
sub comment {
    my ($trim) = @_;
    my $text = "opens slowly" . " " x 2000 . "since Monday";
    return $trim->($text);
}

sub trim_by_pattern {
    my $text = shift;
    $text =~ s/^\s*(.*?)\s*$/$1/;
    return $text;
}

sub trim_both_ends {
    my $text = shift;
    my $end = length $text;
    $end-- while $end > 0 && substr($text, $end - 1, 1) =~ /\s/;
    my $begin = 0;
    $begin++ while $begin < $end && substr($text, $begin, 1) =~ /\s/;
    return substr $text, $begin, $end - $begin;
}

my %habits = (
    "valves" => sub { page_of("Valves", valves()) },
    "trim-by-pattern" => sub { page_of("Comments", comment(\&trim_by_pattern)) },
    "trim-both-ends" => sub { page_of("Comments", comment(\&trim_both_ends)) },
);
my $page = $habits{$r->dir_config("habit")}->();
$r->content_type("text/html");
$r->set_content_length(length $page);
$r->print($page);
