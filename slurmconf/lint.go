package slurmconf

// Lint says what slurmctld, and for gres.conf slurmd, of the stated release
// does with the files, which together are the cluster's: topology.conf,
// topology.yaml and gres.conf, told apart by the end of their names. Findings
// are in the order of files and lines. Verdicts follow runs of the real
// daemons.
func Lint(files []File, o Options) []Finding {
	return nil
}
