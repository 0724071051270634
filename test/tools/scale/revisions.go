package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/slurmconf"
	"github.com/quoin-hpc/quoin/slurmconf/hostlist"
	"github.com/quoin-hpc/quoin/slurmconf/lint"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/topology"
)

// The publication's ConfigMap.
const (
	namespace = "slurm"
	configMap = "quoin-slurm"
)

// revision is one version of the published files.
type revision struct {
	at     time.Time // when this process saw it
	number string
	files  map[string]string
	blocks map[string][]string // of the block topology, without empty ones
}

// revisions are all versions of the published files, and what is wrong with any.
type revisions struct {
	site  *site
	stop  context.CancelFunc
	mu    sync.Mutex
	all   []*revision
	wrong []error
	came  chan struct{} // gets a value after a new one
}

// watchRevisions watches the files until ctx ends.
func watchRevisions(ctx context.Context, s *site) *revisions {
	r := &revisions{site: s, came: make(chan struct{}, 1)}
	r.watch(ctx)
	return r
}

// watch begins to watch, or begins again: after a restore of etcd a watch shows nothing.
func (r *revisions) watch(ctx context.Context) {
	if r.stop != nil {
		r.stop()
	}
	ctx, r.stop = context.WithCancel(ctx)
	factory := informers.NewSharedInformerFactoryWithOptions(r.site.admin, 0, informers.WithNamespace(namespace))
	watching := factory.Core().V1().ConfigMaps().Informer()
	_, _ = watching.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: r.add, UpdateFunc: func(_, is any) { r.add(is) }}) // fails only on a stopped informer
	go watching.RunWithContext(ctx)
}

// add notes a version of the ConfigMap.
func (r *revisions) add(obj any) {
	cm, ok := obj.(*corev1.ConfigMap)
	if !ok || cm.Name != configMap || cm.Annotations[plandoc.AnnotationSeed] != "" {
		return
	}
	next := &revision{at: time.Now(), number: cm.Annotations[plandoc.AnnotationRevision], files: map[string]string{}}
	for _, name := range plandoc.OwnFiles {
		if text, is := cm.Data[name]; is {
			next.files[name] = text
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.all); n > 0 && plandoc.Digest(r.all[n-1].files) == plandoc.Digest(next.files) {
		return
	}
	if err := r.site.check(next); err != nil {
		r.wrong = append(r.wrong, fmt.Errorf("revision %s: %w", next.number, err))
	}
	r.all = append(r.all, next)
	select {
	case r.came <- struct{}{}:
	default:
	}
}

// last returns the newest version, or nil.
func (r *revisions) last() *revision {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.all) == 0 {
		return nil
	}
	return r.all[len(r.all)-1]
}

func (r *revisions) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// err returns what is wrong with any version.
func (r *revisions) err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return errors.Join(r.wrong...)
}

// until waits for a version that is as the machines report now.
func (r *revisions) until(ctx context.Context, machines []*machine) (*revision, error) {
	limit := time.After(waitLimit)
	for {
		var differs error
		last := r.last()
		if last == nil {
			differs = errors.New("nothing is published")
		} else if differs = last.differs(machines); differs == nil {
			return last, r.err()
		}
		select {
		case <-r.came:
		case <-time.After(time.Second): // reports may have changed
		case <-limit:
			return nil, fmt.Errorf("not within %s: %w", waitLimit, differs)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// waitLimit bounds the wait for what must come.
const waitLimit = 5 * time.Minute

// check parses and lints the files. It returns an error if Slurm would not take them or if a
// block has a node that has never reported the clique of the others.
func (s *site) check(r *revision) error {
	var files []lint.File
	for name, text := range r.files {
		files = append(files, lint.File{Name: name, Data: []byte(text)})
	}
	for _, f := range lint.Lint(files, lint.Options{Plugin: lint.PluginBlock}) {
		if f.Severity == topology.Fatal {
			return errors.New(f.String())
		}
	}
	if err := r.read(); err != nil {
		return err
	}
	for name, nodes := range r.blocks {
		first := s.byName[nodes[0]]
		if first == nil || !slices.ContainsFunc(first.cliques(), func(c topology.Clique) bool { return s.haveAll(nodes, c) }) {
			return fmt.Errorf("block %s: its nodes %s have never reported one clique", name, hostlist.Compress(nodes))
		}
	}
	return nil
}

// cliques are all that m has reported.
func (m *machine) cliques() (all []topology.Clique) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for c := range m.said {
		all = append(all, c)
	}
	return all
}

func (s *site) haveAll(nodes []string, c topology.Clique) bool {
	return !slices.ContainsFunc(nodes, func(name string) bool { return s.byName[name] == nil || !s.byName[name].has(c) })
}

// read fills in the blocks.
func (r *revision) read() error {
	all, err := slurmconf.ParseTopologies("topology.yaml", []byte(r.files["topology.yaml"]))
	if err != nil {
		return err
	}
	r.blocks = map[string][]string{}
	for _, t := range all {
		for _, b := range t.Blocks {
			if len(b.Nodes) > 0 {
				r.blocks[b.Name] = b.Nodes
			}
		}
	}
	return nil
}

// differs says where the file is not as the machines report now: every clique is one block,
// and every machine is in it.
func (r *revision) differs(machines []*machine) error {
	want := map[topology.Clique]map[string]bool{}
	for _, m := range machines {
		m.mu.Lock()
		if want[m.now] == nil {
			want[m.now] = map[string]bool{}
		}
		want[m.now][m.name] = true
		m.mu.Unlock()
	}
	if len(want) != len(r.blocks) {
		return fmt.Errorf("%d blocks: want %d", len(r.blocks), len(want))
	}
	placed := map[string][]string{} // by first node
	for _, nodes := range r.blocks {
		for _, n := range nodes {
			placed[n] = nodes
		}
	}
	for c, nodes := range want {
		for name := range nodes {
			if in := placed[name]; len(in) != len(nodes) || slices.ContainsFunc(in, func(n string) bool { return !nodes[n] }) {
				return fmt.Errorf("node %s of clique %s is in a block of %d nodes: want %d of its clique", name, c, len(in), len(nodes))
			}
			break
		}
	}
	return nil
}
