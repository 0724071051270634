package switches

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// ReasonAdapterNameless names adapters of which nobody knows the node.
const ReasonAdapterNameless = "AdapterNameless"

// Nameless is an adapter whose description names no host.
type Nameless struct {
	// GUID is the adapter's, or in the ports report the port's, in 16 hexadecimal digits.
	GUID        string
	Description string
}

// deviceName is the second word of an adapter's description, such as mlx5_0 or HCA-1.
var deviceName = regexp.MustCompile(`^(HCA-[0-9]+|(mlx[0-9]*|hfi[0-9]*|qib|ib|ibp|roce|rocep|irdma|bnxt_re|rdma)_?[0-9]+[a-z0-9_]*)$`)

// Hosts returns the hosts that adapters' descriptions name, such as "n07 mlx5_0", sorted by name, and
// the adapters that name none, sorted by GUID. Descriptions are a weak witness: a host that did not
// write its own has its adapter's product there. So Hosts is for those that have no reports.
func Hosts(fabrics []*Fabric) ([]Node, []Nameless) {
	type found struct{ host, text string }
	adapters := map[string]found{}
	for _, f := range fabrics {
		for i := range f.devices {
			d := &f.devices[i]
			if d.kind != adapterKind || d.inBox {
				continue
			}
			adapters[switchID(d.guid)] = found{hostOf(d.text), d.text}
		}
	}
	of := map[string][]Adapter{}
	var nameless []Nameless
	for guid, f := range adapters {
		if f.host == "" {
			nameless = append(nameless, Nameless{guid, f.text})
			continue
		}
		of[f.host] = append(of[f.host], Adapter{GUIDs: []string{guid}})
	}
	var hosts []Node
	for name, adapters := range of {
		slices.SortFunc(adapters, func(a, b Adapter) int { return strings.Compare(a.GUIDs[0], b.GUIDs[0]) })
		hosts = append(hosts, Node{Name: name, Adapters: adapters})
	}
	slices.SortFunc(hosts, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(nameless, func(a, b Nameless) int { return strings.Compare(a.GUID, b.GUID) })
	return hosts, nameless
}

// hostName is what a host may be called. A description may hold anything.
var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// hostOf returns the host that an adapter's description names, or "".
func hostOf(text string) string {
	words := strings.Fields(text)
	alone := len(words) == 1 && !deviceName.MatchString(words[0])
	if (alone || len(words) == 2 && deviceName.MatchString(words[1])) && hostName.MatchString(words[0]) {
		return words[0]
	}
	return ""
}

// maxShown is how many GUIDs a problem names. It counts the others.
const maxShown = 3

// FindNameless says which adapters have no known node, for each description.
func FindNameless(all []Nameless) (problems []topology.Finding) {
	guids := map[string][]string{}
	var texts []string
	for _, n := range all {
		if guids[n.Description] == nil {
			texts = append(texts, n.Description)
		}
		guids[n.Description] = append(guids[n.Description], n.GUID)
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(guids[b]), len(guids[a])), strings.Compare(a, b))
	})
	for _, text := range texts {
		of := guids[text]
		shown := strings.Join(of[:min(len(of), maxShown)], ", ")
		if len(of) > maxShown {
			shown = fmt.Sprintf("%s and %d more", shown, len(of)-maxShown)
		}
		message := fmt.Sprintf("the node of adapter %s is not known: its description %q names no host, and no report has its GUID", shown, text)
		if len(of) > 1 {
			message = fmt.Sprintf("the nodes of %d adapters are not known: their description %q names no host, and no report has their GUIDs: %s", len(of), text, shown)
		}
		problems = append(problems, topology.Finding{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: message})
	}
	return problems
}
