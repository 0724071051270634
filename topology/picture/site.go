package picture

import "github.com/quoin-hpc/quoin/topology"

// Site is all that there is to draw. Text, page and document are made of it. What is
// not known is left out.
type Site struct {
	// Publication is the name of the plan's publication.
	Publication string
	Plan        *topology.Plan
	// Facts give the nodes' health.
	Facts []topology.Facts
	// Said is what others say of the nodes, by Slurm name.
	Said map[string]Said
	// Asked is when Slurm was asked for the states of nodes and for jobs, in RFC 3339, or empty.
	Asked string
	// Jobs are the running jobs.
	Jobs []Job
	// Held says what is not published, or is nil.
	Held *Held
	// Segments say how many segments of jobs are free.
	Segments []Segments
	// Trouble says what could not be read.
	Trouble []string
}

// Said is what others say of a node.
type Said struct {
	// Slurm has Slurm's words for the node's state, such as IDLE+DRAIN. Use is what a job can
	// do with the node: free, busy or unavailable.
	Slurm string `json:"slurm,omitempty"`
	Use   string `json:"use,omitempty"`
	// Why is Slurm's reason of a node that takes no job, and the reservation that has the node.
	Why string `json:"why,omitempty"`
	// IMEX says whether jobs across nodes can use IMEX on the node. Drift says whether the
	// published place is the right one. Fabric says how the NVLink fabric is.
	IMEX   Verdict `json:"imex,omitzero"`
	Drift  Verdict `json:"drift,omitzero"`
	Fabric Verdict `json:"fabric,omitzero"`
}

// wrong says that something is to be done about the node.
func (s *Said) wrong() bool {
	return s.Use == unavailable || s.IMEX.Wrong || s.Drift.Wrong || s.Fabric.Wrong
}

// The uses of a node.
const (
	free        = "free"
	busy        = "busy"
	unavailable = "unavailable"
)

// Verdict is an answer to one question about a node, as the page's JSON has it. It is there also
// while nothing is wrong, so it is no topology.Finding. It is not known if Reason is empty.
type Verdict struct {
	// Wrong says that something is to be done.
	Wrong   bool   `json:"wrong,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
}

// Job is a running job.
type Job struct {
	ID        string `json:"id"`
	Name      string `json:"name,omitempty"`
	User      string `json:"user,omitempty"`
	Account   string `json:"account,omitempty"`
	Partition string `json:"partition,omitempty"`
	// Nodes are Slurm names. GPUs are the GPUs of the job on each of them, as text.
	Nodes []string          `json:"nodes"`
	GPUs  map[string]string `json:"gpus,omitempty"`
	// Segment is the size of a segment that the job asked for, or 0.
	Segment int `json:"segment,omitempty"`
	// Blocks is how many blocks the job uses, and Fewest how many of them are large enough, or 0 if
	// that is not known. Note says it in words.
	Blocks int    `json:"blocks,omitempty"`
	Fewest int    `json:"fewest,omitempty"`
	Note   string `json:"note,omitempty"`
}

// Held is what is not published.
type Held struct {
	Holds []Hold `json:"holds"`
	// Differences are what would change if nothing was held, a sentence each.
	Differences []string `json:"differences,omitempty"`
}

// Hold is one change that is not published.
type Hold struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	Since   string `json:"since,omitempty"`
	// Digest names what is held.
	Digest string `json:"digest,omitempty"`
	// Waits says that an approval of the digest publishes the change.
	Waits bool `json:"waits,omitempty"`
	// Alone says that one decision is held, and that all else is published.
	Alone bool `json:"alone,omitempty"`
	// Ends says what ends the hold without an approval.
	Ends string `json:"ends,omitempty"`
}

// Segments say how many segments of one size are free in a topology.
type Segments struct {
	Topology string `json:"topology"`
	Size     int    `json:"size"`
	// Now is how many fit now, and All how many if all nodes were free and available.
	Now int `json:"now"`
	All int `json:"all"`
	// Taken is how many free nodes of a block the segments take together.
	Taken map[string]int `json:"taken,omitempty"`
}
