package switches

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/quoin-hpc/quoin/topology"
)

// ReasonAdapterNameless names adapters of which nobody knows the node.
const ReasonAdapterNameless = "AdapterNameless"

// Hosts returns the hosts that adapters' descriptions name, such as "n07 mlx5_0", sorted by name, and says
// which adapters name none. reported has "HOST DEVICE" by GUID, as reports say of adapters. Descriptions
// are a weak witness: a host that did not write its own has its adapter's product there.
func Hosts(fabrics []*Fabric, reported map[string]string) (hosts []Node, problems []topology.Finding) {
	byHost, nameless := readHosts(fabrics, reported)
	for _, name := range slices.Sorted(maps.Keys(byHost)) {
		host := Node{Name: name}
		for _, guid := range byHost[name] {
			host.Adapters = append(host.Adapters, Adapter{GUIDs: []string{guid}})
		}
		hosts = append(hosts, host)
	}
	return hosts, sayNameless(nameless)
}

// readHosts returns the sorted GUIDs of adapters by host, and the GUIDs of adapters without a host by their
// description. All descriptions together decide which word names a host, because a device may have any name.
func readHosts(fabrics []*Fabric, reported map[string]string) (byHost, nameless map[string][]string) {
	texts := map[uint64]string{}
	for _, f := range fabrics {
		for i := range f.devices {
			if d := &f.devices[i]; d.kind == adapterKind && !d.inBox {
				texts[d.guid] = d.text
			}
		}
	}
	guids := slices.Sorted(maps.Keys(texts))
	read := make([]description, len(guids))
	sure := make([]bool, len(guids)) // a report says it
	seen := &evidence{known: map[description]bool{}, hosts: map[string]int{}, adapters: map[string]int{}, several: map[string]bool{}}
	for i, guid := range guids {
		read[i] = wordsOf(texts[guid])
		if by, ok := reported[switchID(guid)]; ok {
			told := wordsOf(by)
			seen.form = seen.form || told.device == read[i].device
			read[i], sure[i] = told, true
		}
		seen.add(read[i])
	}
	for i, d := range read {
		seen.form = seen.form || !sure[i] && d.twoWords() && seen.names(d)
	}
	byHost, nameless = map[string][]string{}, map[string][]string{}
	for i, guid := range guids {
		of, word := byHost, read[i].host
		if !sure[i] && !seen.names(read[i]) {
			of, word = nameless, texts[guid]
		}
		of[word] = append(of[word], switchID(guid))
	}
	return byHost, nameless
}

// description is the description of an adapter: its first word, which may be the host, and all others,
// which then are the device.
type description struct{ host, device string }

func wordsOf(text string) description {
	host, device, _ := strings.Cut(strings.Join(strings.Fields(text), " "), " ")
	return description{host, device}
}

// twoWords reports whether a description has the form that hosts write by themselves.
func (d description) twoWords() bool { return d.device != "" && !strings.Contains(d.device, " ") }

// evidence is what all descriptions together say of their words.
type evidence struct {
	known    map[description]bool // that an adapter has
	hosts    map[string]int       // by device: how many first words stand before it
	adapters map[string]int       // by first word: how many adapters have it
	several  map[string]bool      // first words that stand on several adapters with one device
	// form: hosts of this fabric write two words, so two words that occur once are a host and its device.
	form bool
}

// add adds the description of an adapter.
func (e *evidence) add(d description) {
	switch {
	case !e.known[d]:
		e.known[d] = true
		e.hosts[d.device]++
	case d.device != "":
		e.several[d.host] = true
	}
	e.adapters[d.host]++
}

// mostAdapters is how many adapters a host has at most, as in a report. A word that more have is no host.
const mostAdapters = 32

// hostName is what a host may be called. A description may hold anything.
var hostName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// names reports whether the first word of a description names one host. A host has each device once. A
// product, or a name that several machines have, stands on several adapters with one device.
func (e *evidence) names(d description) bool {
	nobody := strings.HasPrefix(d.host+".", "localhost.") // a machine without a name is called so
	switch {
	case !hostName.MatchString(d.host), nobody, e.several[d.host], e.adapters[d.host] > mostAdapters:
		return false
	case d.device == "":
		return e.hosts[d.host] == 0 // else it is a device without its host
	}
	return e.hosts[d.device] > 1 || d.twoWords() && (e.form || e.adapters[d.host] > 1)
}

// maxShown is how many GUIDs a problem names. It counts the others.
const maxShown = 3

// sayNameless says which adapters have no known node, for each description. guids are by description.
func sayNameless(guids map[string][]string) (problems []topology.Finding) {
	texts := slices.SortedFunc(maps.Keys(guids), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(guids[b]), len(guids[a])), strings.Compare(a, b))
	})
	for _, text := range texts {
		of := guids[text]
		shown := strings.Join(of[:min(len(of), maxShown)], ", ")
		if len(of) > maxShown {
			shown = fmt.Sprintf("%s and %d more", shown, len(of)-maxShown)
		}
		message := fmt.Sprintf("the node of adapter %s is not known: its description %q does not name one host, and no report has its GUID", shown, text)
		if len(of) > 1 {
			message = fmt.Sprintf("the nodes of %d adapters are not known: their description %q does not name one host, and no report has their GUIDs: %s", len(of), text, shown)
		}
		message += "; give reports, or have each machine write a host name of its own there (rdma-ndd)"
		problems = append(problems, topology.Finding{Severity: topology.Warning, Reason: ReasonAdapterNameless, Message: message})
	}
	return problems
}
