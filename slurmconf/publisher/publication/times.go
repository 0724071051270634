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

const (
	// confirmTime has two readings of an agent in it, because one reading may be wrong.
	confirmTime = 10 * time.Second
	// publishSpacing lets nodes that come or go one after the other share a publication, because each makes
	// slurmctld reconfigure.
	publishSpacing = 5 * time.Minute
)

// DefaultTimes are the times that hold for every site.
func DefaultTimes() Times { return Times{Confirm: confirmTime, Spacing: publishSpacing} }
