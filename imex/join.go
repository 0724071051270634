package imex

import (
	"context"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// How the site's nodes join an IMEX domain.
const (
	JoinAuto   = "auto"   // by what is there
	JoinHolder = "holder" // a pod of a DaemonSet of its own, which is never rolled, claims the channel
	JoinSlurmd = "slurmd" // Slurm's worker pods claim
	JoinHost   = "host"   // nobody claims: the machines' own nvidia-imex.service serves
	JoinNone   = "none"   // nodes join no domain
)

// Service is how NVIDIA's DRA driver serves ComputeDomains in a cluster.
type Service int

// The ways of the driver.
const (
	NoService    Service = iota // it does not, or is not there
	OwnDaemons                  // it starts a daemon on each node that joins
	HostServices                // it runs no daemons: the machines' own nvidia-imex.service serves
)

// Choose returns how nodes join, and why if the configuration leaves that open. If pods of the holder have
// channels (held), the holder stays, so that one pod that claims by mistake changes nothing. workers names the
// domains whose channels worker pods of Slurm claim.
func (c *Config) Choose(serves Service, held bool, workers ...string) (join, why string) {
	switch {
	case c.Join != JoinAuto:
		return c.Join, ""
	case serves == NoService:
		return JoinHost, "NVIDIA's DRA driver serves no ComputeDomains; a node whose own nvidia-imex.service runs is judged by it, and others need nothing"
	case serves == HostServices:
		return JoinHost, "NVIDIA's DRA driver starts no IMEX daemons, because the machines' own nvidia-imex.service serves"
	case held:
		return JoinHolder, "the pods of the DaemonSet quoin-imex hold channels"
	case len(workers) > 0:
		return JoinSlurmd, "worker pods of Slurm claim channels of ComputeDomain " + strings.Join(workers, " and of ComputeDomain ")
	case c.Namespace != DefaultNamespace:
		return JoinSlurmd, "no pod of the DaemonSet quoin-imex holds a channel, and imex.namespace is not " + DefaultNamespace
	}
	return JoinHolder, "NVIDIA's DRA driver starts IMEX daemons, and no worker pod of Slurm claims a channel"
}

// NoDriverRemedy is what to do if the reason is NoDriver.
const NoDriverRemedy = "nothing, if the site runs IMEX otherwise or not at all; else install NVIDIA's DRA driver with compute domains"

// Hosts are nodes without Kubernetes: their own nvidia-imex.service is all that can serve.
type Hosts struct{ config Config }

// NewHosts returns the nodes of a site without Kubernetes, nil if none can join. config is
// complete.
func NewHosts(config Config) *Hosts {
	if config.Join != JoinAuto && config.Join != JoinHost {
		return nil
	}
	return &Hosts{config}
}

// Ensure creates no domain, because there is none.
func (h *Hosts) Ensure(context.Context) (*Observation, error) { return h.Snapshot() }

// Snapshot returns all but the nodes, and why nothing is wrong with a node whose service does not run.
func (h *Hosts) Snapshot() (*Observation, error) {
	o := &Observation{HostChannels: h.config.HostChannels}
	o.Join, o.Why = h.config.Choose(NoService, false)
	if h.config.Join == JoinAuto {
		o.Domain.Problem = topology.Finding{Reason: ReasonNoDriver, Message: "there is no Kubernetes, and nvidia-imex.service does not run", Remedy: NoDriverRemedy}
	}
	return o, nil
}

// Record does nothing, because there is nobody who keeps events.
func (h *Hosts) Record(*Domain, bool, string, string) {}

// Changes never wakes: all is in the nodes' reports.
func (h *Hosts) Changes() <-chan struct{} { return nil }

// SetClique does nothing.
func (h *Hosts) SetClique(string) {}

// Run waits until ctx ends.
func (h *Hosts) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}
