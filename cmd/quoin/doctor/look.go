package doctor

import (
	"context"

	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// Options say where to look.
type Options struct {
	session.Commands
	// Config is the configuration, with the agent's keys for a node. If ConfigErr says why the
	// cluster's own is not known, Config has what flags say.
	Config    *config.Config
	ConfigErr error
	// Publications are those that are looked at.
	Publications []*publication.Cluster
	// Cluster says how to reach the API server. It is nil if nothing says so.
	Cluster *rest.Config
	// Only is cluster or node. Empty: both, as far as there are both.
	Only string
	// HookDir is where slurmd runs the hook from. Empty: where Quoin was installed.
	HookDir string
	// Node is this machine's name in Kubernetes.
	Node string
	// Version is the release of this program.
	Version string
}

// The parts that are looked at.
const (
	PartCluster = "cluster"
	PartNode    = "node"
)

// Look looks at the cluster and at this node. head says in one line what cluster there is, if one is seen.
func Look(ctx context.Context, o *Options) (head string, found []topology.Finding, err error) {
	if o.Only == PartNode || o.Only == "" && o.IsNode() {
		found = o.node().findings(ctx)
	}
	if o.Only == PartNode {
		return "", found, nil
	}
	if o.Cluster == nil {
		var f findings
		if o.Config.Agent.Store+o.Config.Publisher.Store != "" {
			f.ok("cluster", "there is none to look at, because Quoin works in a directory")
		} else {
			f.unknown("cluster", "give --kubeconfig FILE, or --only node to look at the node alone", "not looked at, because nothing says where it is")
		}
		return "", append(found, f...), nil
	}
	c, err := Gather(ctx, o)
	if err != nil {
		return "", nil, err
	}
	return c.Head(), append(found, c.Findings()...), nil
}
