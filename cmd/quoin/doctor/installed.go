package doctor

import (
	"cmp"
	"fmt"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/cmd/quoin/session"
)

const (
	// installArgs install Quoin, as the pages do: a test holds that the words are the same.
	installArgs = " install quoin manifests/chart -n quoin-system --create-namespace -f manifests/chart/presets/slinky.yaml -f manifests/chart/presets/gpu-operator.yaml -f site.yaml"
	// checkout begins the remedies whose command reads the chart.
	checkout = "in a checkout of this release: "
	// asApplied names the way that needs no Helm. Its folder is called site.
	asApplied = " (3b in manifests/docs/install.md; with Argo CD or Flux, change its repository instead)"
)

// installation is how Quoin was installed, and how its objects are changed: by a release of Helm, or by YAML that is
// applied. Helm refuses to change what it has not made. What kubectl applies over a release is lost with the next upgrade.
type installation struct {
	session.Commands
	Objects
	// release and namespace are Helm's.
	release, namespace string
	// applied says that YAML was applied. unread says that nobody knows, because nothing could be listed. If
	// nothing is set, Quoin is not installed.
	applied, unread bool
}

// installed looks at Quoin's own workloads. Helm marks all objects that it makes.
func (c *Cluster) installed() *installation {
	is := &installation{Commands: c.Commands, Objects: c.Objects}
	switch o := cmp.Or(c.workload(componentPublisher), c.workload(componentAgent)); {
	case o == nil:
		is.unread = c.Missing["deployments"] != nil || c.Missing["daemonsets"] != nil
	case o.GetLabels()["app.kubernetes.io/managed-by"] != "Helm":
		is.applied = true
	default:
		marks := o.GetAnnotations()
		is.release, is.namespace = cmp.Or(marks["meta.helm.sh/release-name"], "quoin"), cmp.Or(marks["meta.helm.sh/release-namespace"], "quoin-system")
	}
	return is
}

// remedy is the remedy that makes Quoin's objects again, with changed values: by Helm with further arguments, or as yaml
// says where YAML was applied. Without an installation, the remedy installs Quoin.
func (is *installation) remedy(arguments, yaml string) string {
	switch {
	case is.release != "":
		return is.upgrade() + arguments
	case is.applied:
		return yaml + asApplied + ": " + is.Kubectl + " apply -k site"
	case is.unread:
		return moreRights
	}
	return "choose presets and write site.yaml (manifests/docs/install.md); " + checkout + is.Helm + installArgs
}

// apply is the remedy that installs Quoin, or brings back what is missing of it.
func (c *Cluster) apply() string { return c.installed().remedy("", "apply Quoin's YAML again") }

// correct is the remedy for a bad value in the configuration of a component.
func (is *installation) correct(component string) string {
	switch {
	case is.release != "":
		return "correct the value in the file of values, " + is.upgrade() + " -f site.yaml"
	case is.applied:
		return "correct the value" + is.inYAML(component)
	}
	return "correct the value"
}

// change is the remedy that gives a key of the publisher's configuration another value.
func (is *installation) change(key, value string) string {
	switch {
	case is.release != "":
		return is.upgrade() + config.Flag("--set", "config."+key+"="+value)
	case is.applied:
		return "write " + key + ": " + value + is.inYAML(componentPublisher)
	}
	return "set " + key + " to " + value
}

// volumes is the remedy for a NodeSet that lacks volumes.
const volumes = "give the NodeSet the volumes that manifests/docs/slinky.md has (Tell Slinky)"

// upgrade ends a remedy with the command that makes all objects again, with the values that the site gave before.
func (is *installation) upgrade() string {
	return checkout + is.Helm + " upgrade " + config.Word(is.release) + " manifests/chart -n " + config.Word(is.namespace) + " --reset-then-reuse-values"
}

// inYAML ends a remedy that changes the configuration of a component. Applied YAML does not restart what
// reads a changed ConfigMap.
func (is *installation) inYAML(component string) string {
	o := is.workload(component)
	if o == nil {
		return asApplied
	}
	return fmt.Sprintf(" in the %s that your kustomization gives to ConfigMap %s/%s%s: %s apply -k site && %s -n %s rollout restart %s/%s",
		session.ConfigKey, o.GetNamespace(), session.ConfigName, asApplied, is.Kubectl, is.Kubectl, o.GetNamespace(), workloads[component], o.GetName())
}
