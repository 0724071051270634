// Package hosts lets tests write the names of nodes as a host list.
package hosts

import "github.com/quoin-hpc/quoin/slurmconf/hostlist"

// In returns the names of a host list. A list that cannot be read ends the test.
func In(list string) []string {
	names, err := hostlist.Expand(list)
	if err != nil {
		panic(err)
	}
	return names
}
