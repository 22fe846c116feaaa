#!/bin/bash
# perl: hashes, strings, sorting, regular expressions, references, fork.
source "$(dirname "$0")/common.sh"
need perl

cat >"$work/script" <<'PERL'
use strict;
use warnings;
my %table;
for my $i (1 .. 70000) {
    my $key = "k" . ($i * 7919 % 30011);
    push @{ $table{$key} }, $i;
    delete $table{ "k" . ($i % 30011) } if $i % 5 == 0;
}
print scalar(keys %table), "\n";
my @sorted = sort { @{ $table{$b} } <=> @{ $table{$a} } || $a cmp $b } keys %table;
print "$_: @{ $table{$_} }\n" for @sorted[ 0 .. 4 ];
my $text = join ",", map { "word$_" } 1 .. 40000;
my $count = () = $text =~ /word\d*7(?=,)/g;
$text =~ s/(\d+)/<$1>/g;
print $count, " ", length $text, "\n";
my @tree = (undef) x 10;
for my $i (1 .. 30000) { $tree[ $i % 10 ] = [ $tree[ $i % 10 ], "x" x ( $i % 500 ) ]; $tree[ $i % 10 ] = undef if $i % 400 == 0; }
for my $child (1 .. 5) {
    my $pid = fork();
    if ( $pid == 0 ) { my @copy = map { "$_" x 3 } keys %table; exit( @copy > 1000 ? $child : 99 ); }
    waitpid $pid, 0;
    print "child ", $? >> 8, "\n";
}
eval { die { text => "thrown" x 1000 } };
print length $@->{text}, "\n";
print sprintf( "%s", "=" x 3_000_000 ) eq "=" x 3_000_000 ? "equal\n" : "differs\n";
PERL
export PERL_HASH_SEED=0
same perl perl "$work/script"
served perl perl "$work/script"
