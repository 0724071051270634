package doctor

import (
	"cmp"
	"context"
	"io"
	"net/http"

	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// Options say where to look.
type Options struct {
	// Config is the configuration, with the agent's keys for a node. If ConfigErr says why the
	// cluster's own is not known, Config has what flags say.
	Config    *config.Config
	ConfigErr error
	// Publications are those that are looked at.
	Publications []*publication.Cluster
	// Cluster says how to reach the API server. It is nil if nothing says so.
	Cluster *rest.Config
	// Kubectl and Helm begin the commands that are advised, and Again ends those of quoin, so that all
	// work on the same cluster.
	Kubectl, Helm, Again string
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

func (o *Options) node() *Node {
	dir := cmp.Or(o.HookDir, hookDir(&o.Config.Agent))
	return &Node{Name: o.Node, Kubectl: o.Kubectl, Again: o.Again, Root: o.Config.Agent.HostRoot, Agent: &o.Config.Agent, HookDir: dir, Packaged: dir == packageHooks, Version: o.Version, Client: http.DefaultClient}
}

// IsNode reports whether this is a GPU node.
func (o *Options) IsNode() bool { return o.node().IsNode() }

// Look looks at the cluster and at this node.
func Look(ctx context.Context, o *Options) (found []topology.Finding, err error) {
	if node := o.node(); o.Only == PartNode || o.Only == "" && node.IsNode() {
		found = node.Findings(ctx)
	}
	if o.Only == PartNode {
		return found, nil
	}
	if o.Cluster == nil {
		var f findings
		if o.Config.Agent.Store+o.Config.Publisher.Store != "" {
			f.ok("cluster", "there is none to look at, because Quoin works in a directory")
		} else {
			f.unknown("cluster", "give --kubeconfig FILE, or --only node to look at the node alone", "not looked at, because nothing says where it is")
		}
		return append(found, f...), nil
	}
	c, site, err := gather(ctx, o)
	if err != nil {
		return nil, err
	}
	return append(found, c.Findings(site)...), nil
}

// Status says in a few lines how the cluster is. It returns all findings.
func Status(ctx context.Context, w io.Writer, o *Options) ([]topology.Finding, error) {
	c, site, err := gather(ctx, o)
	if err != nil {
		return nil, err
	}
	return c.PrintStatus(w, site), nil
}

func gather(ctx context.Context, o *Options) (*Cluster, *Site, error) {
	c, err := Gather(ctx, o.Cluster)
	if err != nil {
		return nil, nil, err
	}
	c.Kubectl, c.Helm = o.Kubectl, o.Helm
	site := c.Site(o)
	return c, site, c.gatherPublications(ctx, o.Cluster, site)
}
