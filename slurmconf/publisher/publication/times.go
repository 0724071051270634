package publication

import "time"

// Times are waits that no site has a reason to choose. Tests shorten them.
type Times struct {
	// Confirm is how long facts must name a new place of a published node before the node moves. It
	// doubles with each move within an hour.
	Confirm time.Duration `yaml:"confirm"`
	// Spacing is the least time between two publications if the second one only adds or removes nodes of
	// known blocks and switches.
	Spacing time.Duration `yaml:"spacing"`
}

// DefaultTimes are the times of every site. Confirm has two readings of an agent in it, because one may be
// wrong. Spacing lets nodes that come or go one after the other share a publication, because each makes
// slurmctld reconfigure.
func DefaultTimes() Times { return Times{Confirm: 10 * time.Second, Spacing: 5 * time.Minute} }
