package doctor

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
)

// Site says how the cluster is configured.
func (c *Cluster) Site(o *Options) *Site {
	s := &Site{Version: o.Version, Again: o.Again, ConfigErr: o.ConfigErr, Namespace: o.Config.Publisher.Namespace}
	if o.ConfigErr == nil {
		s.Publications, s.All, s.NoConditions = o.Publications, o.Config.Clusters(), !o.Config.Publisher.NodeConditions
		c.join(s, o.Config.IMEX)
	}
	agents, err := c.agentsConfig(o.Config)
	if s.AgentsErr = err; err == nil && agents != nil {
		s.MappingDir = agents.Agent.MappingDir
	}
	return s
}

// agentsConfig returns the configuration that the agents' pods mount. Without such a ConfigMap it is
// ours, and nil if nobody knows.
func (c *Cluster) agentsConfig(ours *config.Config) (*config.Config, error) {
	agents := c.own("daemonsets", "agent")
	switch {
	case c.Missing["configmaps"] != nil || c.Missing["daemonsets"] != nil:
		return nil, nil
	case agents == nil:
		return ours, nil
	}
	cm := c.named("configmaps", agents.GetNamespace(), session.ConfigName)
	if cm == nil {
		return ours, nil
	}
	text, _, _ := unstructured.NestedString(cm.Object, "data", session.ConfigKey)
	return config.Parse(config.Default(), "ConfigMap "+agents.GetNamespace()+"/"+session.ConfigName, []byte(text), nil)
}

// join says how nodes join the IMEX domain.
func (c *Cluster) join(s *Site, conf imex.Config) {
	objects := computedomain.NewObjects(conf)
	objects.ClassesRead, objects.Installed = c.Missing["deviceclasses"] == nil, true // other checks look for the publisher
	for resource, kind := range map[string]string{"deviceclasses": "DeviceClass", "computedomains": "ComputeDomain", "daemonsets": "DaemonSet", "deployments": "Deployment", "nodesets": "NodeSet"} {
		for i := range c.Objects[resource] {
			o := &c.Objects[resource][i]
			if data, err := o.MarshalJSON(); err == nil {
				_ = objects.Add(kind, data) // an object that cannot be read counts as absent
			}
		}
	}
	seen := objects.Seen()
	s.Join, s.Why = seen.Join, seen.Why
	if s.Join != imex.JoinHolder && s.Join != imex.JoinSlurmd {
		return
	}
	s.Domain, s.Note = seen.Domain.Problem, seen.Domain.Note
}
