// Package rundir reads and writes the files of the node's run directory, by which
// the agent and the job hook work together: the inventory and the hook's
// configuration, which the agent writes; the records of jobs, which the hook
// writes; and what both leave of a job's use of its GPUs.
//
// Each file is whole or not there. Readers take no lock.
package rundir
