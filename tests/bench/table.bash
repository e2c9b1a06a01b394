# Results: one TSV record each in $results, and one table for people at the end.
#	pair	NAME A B PAIRS A_US B_US RATIO_OF_MEDIANS MEDIAN_OF_RATIOS A_P90 B_P90 TARGET MET A_STEPS B_STEPS
#	memory	NAME A B KIB_PER_BOX TARGET MET
#	split	FIELD KIB_PER_BOX
#	note	NAME TEXT

# $results is set by run.
# shellcheck shell=bash disable=SC2034,SC2154

table_start() {
	: >"$results"
}

table_note() {
	printf 'note\t%s\t%s\n' "$1" "$2" >>"$results"
}

table_missing() {
	printf 'pair\t%s\t%s\t%s\t-\t-\t-\t-\t-\t-\t-\t%s\tfailed\t-\t-\n' "$1" "$2" "$3" "$4" >>"$results"
}

# The target is held against the median of the ratios pair by pair: it is the one that a change of the
# machine's load between pairs does not move.
table_pair() {
	awk -F '\t' -v OFS='\t' -v name="$1" -v a="$2" -v b="$3" -v target="$4" '{
		met = target == "-" ? "-" : $5 <= target ? "yes" : "no"
		print "pair", name, a, b, $1, $2, $3, $4, $5, $6, $7, target, met, $8, $9
	}' <<<"$5" >>"$results"
}

# table_memory TARGET BOXES BEFORE WITH AFTER: files in the form of /proc/meminfo.
table_memory() {
	awk -v OFS='\t' -v target="$1" -v boxes="$2" '
		FILENAME != last { last = FILENAME; nr++ }
		{ kib[nr, $1] = $2 }
		END {
			up = (kib[1, "MemAvailable:"] - kib[2, "MemAvailable:"]) / boxes
			down = (kib[3, "MemAvailable:"] - kib[2, "MemAvailable:"]) / boxes
			printf "memory\tidle\t%s boxes, made\t-\t%.0f\t%s\t%s\n", boxes, up, target,
				up <= 0 ? "noise" : up <= target ? "yes" : "no"
			printf "memory\tidle\t%s boxes, ended\t-\t%.0f\t-\t-\n", boxes, down
			n = split("Slab SReclaimable SUnreclaim KernelStack PageTables AnonPages Shmem Percpu Mapped", field, " ")
			for (i = 1; i <= n; i++)
				printf "split\t%s\t%.1f\n", field[i],
					(kib[2, field[i] ":"] - kib[1, field[i] ":"]) / boxes
		}' "$3" "$4" "$5" >>"$results"
}

table_end() {
	awk -F '\t' '
		function ms(us) { return us == "-" ? "-" : sprintf("%.2f", us / 1000) }
		BEGIN {
			f = "%-7s %-12s %-10s %9s %9s %8s %8s %8s %-4s %s\n"
			printf "\n" f, "figure", "A", "B", "A ms", "B ms", "A/B", "by pair", "target", "met", "steps of A, ms"
		}
		$1 == "pair" {
			n = split($14, step, "+"); steps = ""
			for (i = 1; n > 1 && i <= n; i++)
				steps = steps (i > 1 ? " + " : "") ms(step[i])
			printf f, $2, $3, $4, ms($6), ms($7), $8, $9, $12, $13, steps
		}
		$1 == "memory" { printf "%-7s %-23s %9s KiB per box, target %s, met %s\n", $2, $3, $5, $6, $7 }
		$1 == "split" { split_text = split_text sprintf(" %s %s", $2, $3) }
		$1 == "pair" && $13 != "yes" && $13 != "-" || $1 == "memory" && $7 == "no" { missed++ }
		$1 == "note" { notes = notes sprintf("%-10s %s\n", $2, $3) }
		END {
			if (split_text) print "of it, KiB per box:" split_text
			printf "\n%s", notes
			if (missed) print missed " not met: the steps above and make profile tell what dominates"
		}' "$results"
	echo "records: $results"
}
