package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/quoin-hpc/quoin/cmd/quoin/config"
	"github.com/quoin-hpc/quoin/slurmconf/publisher"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
)

// controller is the Controller that loads a publication's files.
type controller struct {
	*Cluster
	*findings
	pub    *publication.Cluster
	object *unstructured.Unstructured
	// name is its namespace and name.
	name string
	// misnamed says that the publication calls nodes otherwise than the Controller's Slurm.
	misnamed bool
	// wrong is what a patch with these keys corrects now.
	wrong, patch []string
}

// check looks at what the Controller loads and calls. One patch corrects all that can be corrected now, because each
// patch may start slurmctld again.
func (c *controller) check() {
	before := len(*c.findings)
	if err := c.Missing["configmaps"]; err != nil {
		c.unknown("slinky", toSee(err), "Controller %s: it is not known whether it names the right ConfigMaps", c.name)
	} else {
		c.configFiles()
		c.hookScripts()
	}
	if reloads, set, _ := unstructured.NestedBool(c.object.Object, "spec", "inplaceReconfigure"); !reloads && (set || c.hasKey(controllersDefinition, "inplaceReconfigure")) {
		c.wrong = append(c.wrong, "inplaceReconfigure is off: changed files are not loaded until somebody runs scontrol reconfigure")
		c.patch = append(c.patch, `"inplaceReconfigure": true`)
	}
	if len(c.wrong) > 0 {
		command := fmt.Sprintf("%s -n %s patch controllers.slinky.slurm.net %s --type=merge -p ", c.Kubectl, c.object.GetNamespace(), c.object.GetName())
		c.fatal("slinky", command+config.Word(`{"spec": {`+strings.Join(c.patch, ", ")+`}}`), "Controller %s: %s", c.name, strings.Join(c.wrong, "; "))
	}
	conf := strings.ToLower(text(c.object, "spec", "extraConf"))
	flags := "contain" // the operator's own; a line of extraConf replaces it
	for line := range strings.Lines(conf) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), "prologflags="); ok {
			flags = value
		}
	}
	if !strings.Contains(flags, "contain") {
		c.fatal("slinky", "take PrologFlags out of spec.extraConf of the Controller, or add Contain to it", "Controller %s: PrologFlags has no Contain: nobody sees the end of a job whose worker pod is killed, and its GPUs keep its label for up to 25 minutes", c.name)
	}
	if len(*c.findings) == before {
		c.ok("slinky", "Controller %s loads the files and calls the hook", c.name)
	}
}

// configMap is a ConfigMap that the Controller could load, or nil.
func (c *controller) configMap(name string) *unstructured.Unstructured {
	return c.named("configmaps", c.object.GetNamespace(), name)
}

// The ConfigMaps in which the chart writes the scripts that call the hook.
const (
	hookProlog = "quoin-hook-prolog"
	hookEpilog = "quoin-hook-epilog"
)

// hookScripts looks whether the Controller names the scripts that call the hook.
func (c *controller) hookScripts() {
	for _, script := range []struct{ key, ref, effect string }{
		{"prologScriptRefs", hookProlog, "no job is in the exporter's mapping"}, {"epilogScriptRefs", hookEpilog, "jobs keep their labels until the agent sees their end"}} {
		have := refs(c.object, script.key)
		if slices.Contains(have, script.ref) {
			continue
		}
		said := fmt.Sprintf("%s does not name %s: %s", script.key, script.ref, script.effect)
		if c.configMap(script.ref) == nil {
			c.fatal("slinky", "let Quoin write it, and run doctor again: "+c.installed().remedy(" --set hook.configMaps=true", "take a folder of manifests/plain that has it, such as slinky"), "Controller %s: %s; there is no such ConfigMap", c.name, said)
			continue
		}
		c.wrong, c.patch = append(c.wrong, said), append(c.patch, refsKey(script.key, append(have, script.ref)))
	}
}

// siteFiles is the ConfigMap in which Slinky's chart writes configFiles of its values.
func siteFiles(controller *unstructured.Unstructured) string {
	return controller.GetName() + "-config-extra"
}

// controllerMaps are the ConfigMaps that are looked at for a Controller.
func controllerMaps(o *unstructured.Unstructured) (all []plandoc.Location) {
	for _, name := range append(refs(o, "configFileRefs"), siteFiles(o), hookProlog, hookEpilog) {
		all = append(all, plandoc.Location{Namespace: o.GetNamespace(), Name: name})
	}
	return all
}

// isPublication reports whether the publisher writes the ConfigMap, or did so.
func isPublication(cm *unstructured.Unstructured) bool {
	return cm != nil && cm.GetLabels()["quoin.dev/kind"] == "publication"
}

// configFiles looks at the ConfigMaps whose files the Controller loads. The patch's key keeps the site's ConfigMaps. If
// no patch can correct them now, configFiles says what to wait for: slurmctld does not start without the blocks of its
// nodes.
func (c *controller) configFiles() {
	p, namespace, have := c.pub, c.object.GetNamespace(), refs(c.object, "configFileRefs")
	if p.Namespace != namespace {
		c.fatal("slinky", "publish into that namespace: "+c.installed().change("publications."+p.Name+".namespace", namespace),
			"Controller %s: %s publishes in namespace %s, and a Controller loads ConfigMaps of its own namespace", c.name, p.Name, p.Namespace)
		return
	}
	var want, wrong []string
	if extra := siteFiles(c.object); !slices.Contains(have, extra) && c.configMap(extra) != nil {
		want = append(want, extra)
		wrong = append(wrong, "configFileRefs does not name "+extra+": slurmctld does not get configFiles of Slinky's chart")
	}
	adds, replaces, lost := !slices.Contains(have, p.ConfigMap), false, ""
	for _, ref := range have {
		switch cm := c.configMap(ref); {
		case ref == p.ConfigMap || cm != nil && !isPublication(cm):
			want = append(want, ref)
			continue
		case cm == nil:
			wrong = append(wrong, "configFileRefs names "+ref+", which does not exist")
		default:
			wrong = append(wrong, "configFileRefs names "+ref+", which has files of another publication")
			for _, file := range slices.Sorted(maps.Keys(c.filesOf(namespace, ref))) {
				if !slices.Contains(plandoc.OwnFiles, file) { // the publisher leaves the site's own files there
					lost = file + " of the site is in ConfigMap " + ref + ": put it into another one"
				}
			}
		}
		replaces = true
	}
	if adds {
		want = append(want, p.ConfigMap)
		wrong = append(wrong, "configFileRefs does not name "+p.ConfigMap+": slurmctld does not get the published files")
	}
	twice := c.twice(want)
	if len(wrong) == 0 {
		return
	}
	why := c.notYet(replaces)
	switch {
	case twice:
		why = "a file would be there twice"
	case !adds && !replaces && c.configMap(p.ConfigMap) != nil:
		why = "" // slurmctld has the files already
	case lost != "":
		why = lost
	case c.misnamed:
		why = "slurmNames of " + p.Name + " is wrong"
	}
	if why != "" {
		c.fatal("slinky", "when that is right, the patch is printed by: quoin doctor"+c.Again, "Controller %s: %s; not yet, because %s", c.name, strings.Join(wrong, "; "), why)
		return
	}
	c.wrong, c.patch = append(c.wrong, wrong...), append(c.patch, refsKey("configFileRefs", want))
}

// twice names the files that two of the Controller's ConfigMaps have, and reports whether there are any.
func (c *controller) twice(names []string) (found bool) {
	type place struct{ file, in string }
	first := map[string]place{}
	for _, name := range append([]string{c.pub.ConfigMap}, names...) { // another ConfigMap than the publication's must lose the file
		for _, file := range slices.Sorted(maps.Keys(c.filesOf(c.object.GetNamespace(), name))) {
			what := file
			if file == "topology.conf" { // Slurm loads one topology file
				what = "topology.yaml"
			}
			other, taken := first[what]
			if !taken {
				first[what] = place{file, name}
			} else if other.in != name {
				found = true
				from := "ConfigMap " + name
				if name == siteFiles(c.object) {
					from = "configFiles of Slinky's chart, as manifests/docs/slinky.md says"
				}
				c.fatal("slinky", "take "+file+" out of "+from, "Controller %s: %s is in ConfigMap %s, and %s in ConfigMap %s: slurmctld loads one of the two", c.name, other.file, other.in, file, name)
			}
		}
	}
	return found
}

// notYet says why the Controller must not get the publication's files yet, or "". replaces says that the
// Controller loads files of another publication: then the new files must have the places of nodes.
func (c *controller) notYet(replaces bool) string {
	p := c.pub
	set, ours := c.published(p)
	name, files := "ConfigMap "+p.Place().String(), set.Own()
	switch {
	case set == nil:
		return name + " does not exist"
	case !ours:
		return name + " is somebody else's"
	case len(files) == 0:
		return name + " has no files"
	}
	for _, stands := range set.Findings(c.Now) {
		switch {
		case stands.Thing == plandoc.AboutHeld:
			return "changes of " + name + " are held"
		case stands.Thing == plandoc.AboutPlan && stands.Severity != topology.OK && replaces:
			return name + " has no plan yet, and slurmctld does not start without the blocks of its nodes"
		}
	}
	for _, found := range p.Lint(files, nil) {
		if found.Severity == topology.Fatal {
			return "slurmctld would not load " + name + ": " + found.String()
		}
	}
	if differs := publisher.JudgeRelease(p, files); differs != nil && differs.Severity == topology.Fatal {
		return differs.Message
	}
	return ""
}

// refs are the names in a list of references.
func refs(o *unstructured.Unstructured, key string) []string {
	var names []string
	for _, ref := range objectsAt(o.Object, "spec", key) {
		name, _ := ref["name"].(string)
		names = append(names, name)
	}
	return names
}

// refsKey is a key of a patch, with a list of references.
func refsKey(key string, names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf(`{"name": %q}`, name)
	}
	return fmt.Sprintf(`%q: [%s]`, key, strings.Join(list, ", "))
}
