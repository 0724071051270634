package doctor

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/imex"
	"github.com/quoin-hpc/quoin/imex/computedomain"
)

// Site reads how the cluster is configured: the ConfigMaps quoin-config of the publisher and
// of the agents. Without these the defaults hold.
func (c *Cluster) Site(version string) (*Site, error) {
	s := &Site{Version: version}
	publisher, err := c.configOf(c.own("deployments", "publisher"))
	if err != nil {
		return nil, err
	}
	agents, err := c.configOf(c.own("daemonsets", "agent"))
	if err != nil {
		return nil, err
	}
	s.Publications, s.MappingDir = publisher.Clusters(), agents.Agent.MappingDir
	c.join(s, publisher.IMEX)
	return s, nil
}

// configOf returns the configuration that a workload's pods mount.
func (c *Cluster) configOf(workload *unstructured.Unstructured) (*config.Config, error) {
	if workload == nil {
		return config.Load(config.Default(), "", nil)
	}
	where := workload.GetNamespace()
	text := ""
	if cm := c.named("configmaps", where, configName); cm != nil {
		text, _, _ = unstructured.NestedString(cm.Object, "data", "quoin.yaml")
	}
	parsed, err := config.Parse(config.Default(), "ConfigMap "+where+"/"+configName, []byte(text), nil)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of %s: %w", workload.GetName(), err)
	}
	return parsed, nil
}

// join says how nodes join the IMEX domain.
func (c *Cluster) join(s *Site, conf imex.Config) {
	objects := computedomain.NewObjects(conf)
	var classes []string
	for resource, kind := range map[string]string{"deviceclasses": "DeviceClass", "computedomains": "ComputeDomain", "daemonsets": "DaemonSet", "deployments": "Deployment"} {
		for i := range c.Objects[resource] {
			o := &c.Objects[resource][i]
			if kind == "DeviceClass" {
				classes = append(classes, o.GetName())
			}
			if data, err := o.MarshalJSON(); err == nil {
				_ = objects.Add(kind, data) // an object that cannot be read counts as absent
			}
		}
	}
	s.Join, s.Why = conf.Choose(computedomain.ServiceOf(classes), c.claims(conf))
	if s.Join != imex.JoinHolder && s.Join != imex.JoinSlurmd {
		return
	}
	seen := objects.Seen()
	s.Domain = seen.Domain.Problem
	s.Domain.Remedy = seen.Domain.Remedy()
}

// claims returns one claim for each NodeSet whose pods claim a channel, and one for the holders.
func (c *Cluster) claims(conf imex.Config) []imex.Claim {
	var all []imex.Claim
	if holders := c.own("daemonsets", "imex"); holders != nil && number(holders, "status", "numberReady") > 0 {
		all = append(all, imex.Claim{Owner: imex.OwnerHolder, Pods: []string{"a holder"}})
	}
	for i := range c.Objects["nodesets"] {
		for _, claim := range objectsAt(c.Objects["nodesets"][i].Object, "spec", "template", "spec", "resourceClaims") {
			if claim["resourceClaimTemplateName"] == conf.ClaimTemplate {
				all = append(all, imex.Claim{Owner: imex.OwnerSlurmd})
			}
		}
	}
	return all
}
