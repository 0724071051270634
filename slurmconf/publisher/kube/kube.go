// Package kube is the store of a cluster with Kubernetes. It watches Nodes, reports, worker
// pods, NodeSets, Controllers and ResourceSlices, writes publications as ConfigMaps, annotations and conditions
// on Nodes and events, and elects the leader.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/quoin-hpc/quoin/imex/computedomain/apihealth"
	"github.com/quoin-hpc/quoin/slurmconf/again"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/cables"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/plandoc"
	"github.com/quoin-hpc/quoin/slurmconf/publisher/publication"
	"github.com/quoin-hpc/quoin/topology"
	"github.com/quoin-hpc/quoin/topology/nodereport"
)

// fieldManager owns what the publisher writes.
const fieldManager = "quoin-publisher"

// MaxBytes is what the API server takes as the data of a ConfigMap.
const MaxBytes = 1 << 20

// A publication's ConfigMap carries this label; one that does not is somebody
// else's.
const (
	kindLabel       = "quoin.dev/kind"
	kindPublication = "publication"
)

// Store reads Nodes and reports by watching them and writes publications
// as ConfigMaps.
type Store struct {
	Plans
	log       *slog.Logger
	changes   chan struct{}
	election  atomic.Pointer[election] // nil before Lead
	health    *apihealth.Health
	informers []cache.SharedIndexInformer
	nodes     cache.Store
	reports   cache.Store
	workers   []cache.Store // of worker pods, by namespace
	slinky    []*slinkyWatch
	slices    *sliceWatch
	fabrics   *cables.Reader
	keys      nodeKeys
	written   writtenNodes
	plans     planWatch
	synced    []cache.InformerSynced // of nodes, reports, worker pods and slices
}

// New returns a store over client, sets and reports; the leader's Lease is in namespace. The
// store notices what others do to the ConfigMaps of the clusters and to the stored plans. Nothing
// is asked of the API server before Run.
func New(client kubernetes.Interface, sets dynamic.Interface, reported *nodereport.Client, namespace string, clusters []*publication.Cluster, log *slog.Logger) *Store {
	s := &Store{Plans: Plans{client, namespace}, log: log, health: apihealth.New(log), changes: make(chan struct{}, 1), keys: watchedKeys(clusters), written: writtenNodes{nodes: map[string]writtenNode{}},
		plans: planWatch{seen: map[string]seenPlan{}, own: map[string]string{}}}
	core := client.CoreV1()
	nodes := newInformer(s.health, "nodes", &corev1.Node{}, core.Nodes(), func(*metav1.ListOptions) {}, s.keys.slim)
	reports := newReportInformer(reported, s.health)
	s.nodes, s.reports = nodes.GetStore(), reports.GetStore()
	s.informers = []cache.SharedIndexInformer{nodes, reports}
	for _, namespace := range podNamespaces(clusters) {
		pods := newPodInformer(client, s.health, namespace)
		s.workers, s.informers = append(s.workers, pods.GetStore()), append(s.informers, pods)
	}
	for _, naming := range inputs.NamingPodsOf(rulesOf(clusters)...) {
		pods := newNamingInformer(client, s.health, naming)
		s.workers, s.informers = append(s.workers, pods.GetStore()), append(s.informers, pods)
	}
	for _, informer := range s.informers {
		s.synced = append(s.synced, informer.HasSynced)
	}
	s.slices = newSliceWatch(client, s.health, log)
	s.synced = append(s.synced, s.slices.synced)
	for _, namespace := range podNamespaces(clusters) { // a Snapshot does not wait for them
		for _, watch := range watchSlinky(sets, s.health, namespace) {
			s.slinky, s.informers = append(s.slinky, watch), append(s.informers, watch.informer)
		}
	}
	s.watchFabrics(publication.FabricFiles(clusters)) // a Snapshot does not wait for them
	for _, c := range clusters {                      // Load does not wait for them
		s.informers = append(s.informers, apihealth.NewInformer(s.health, "publication "+c.Place().String(), &corev1.ConfigMap{}, core.ConfigMaps(c.Namespace),
			func(o *metav1.ListOptions) { o.FieldSelector = "metadata.name=" + c.ConfigMap }))
	}
	for _, informer := range append(slices.Clone(s.informers), s.slices.informer) { // the last is not run with the others
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{ // fails only on a stopped informer
			AddFunc:    func(any) { again.Notify(s.changes) },
			DeleteFunc: func(any) { again.Notify(s.changes) },
			UpdateFunc: func(was, is any) {
				if relevant(was, is) {
					again.Notify(s.changes)
				}
			},
		})
	}
	for _, c := range clusters { // LoadPlan does not wait for them
		s.informers = append(s.informers, s.watchPlan(c.Name, func() { again.Notify(s.changes) }))
	}
	return s
}

// relevant filters updates of objects that change nothing that is kept. Kubelets send one
// per node every five minutes or more often.
func relevant(was, is any) bool {
	if pod, ok := was.(*workerPod); ok {
		next, ok := is.(*workerPod)
		return !ok || pod.Worker != next.Worker
	}
	if s, ok := was.(*slinkyObject); ok {
		next, ok := is.(*slinkyObject)
		return !ok || !s.same(next)
	}
	if s, ok := was.(*kubeSlice); ok {
		next, ok := is.(*kubeSlice)
		return !ok || !s.Slice.Same(&next.Slice)
	}
	if r, ok := was.(*kubeReport); ok {
		next, ok := is.(*kubeReport)
		return !ok || r.ResourceVersion != next.ResourceVersion
	}
	if f, ok := was.(*fabricMap); ok {
		next, ok := is.(*fabricMap)
		return !ok || f.ResourceVersion != next.ResourceVersion
	}
	if n, ok := was.(*kubeNode); ok {
		next, ok := is.(*kubeNode)
		return !ok || !n.same(next)
	}
	return true
}

// Run watches until ctx ends. If the API server cannot be reached, it tries again and
// keeps what is known.
func (s *Store) Run(ctx context.Context) error {
	var running sync.WaitGroup
	for _, informer := range s.informers {
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	running.Go(func() { s.slices.run(ctx) })
	running.Go(func() { s.fabrics.Watch(ctx, fabricsAgain, func() { again.Notify(s.changes) }) })
	running.Wait()
	return nil
}

// Changes gets a value after a change. Several changes may give one value.
func (s *Store) Changes() <-chan struct{} { return s.changes }

// Snapshot returns what is known. It blocks until the first lists are in.
func (s *Store) Snapshot(ctx context.Context) (*inputs.Snapshot, error) {
	if !cache.WaitForCacheSync(ctx.Done(), s.synced...) {
		return nil, errors.New("the API server has not answered yet" + because(s.health))
	}
	nodes := s.nodes.List()
	snap := &inputs.Snapshot{Nodes: make([]inputs.Node, 0, len(nodes)), Whole: len(nodes) > 0, Reports: make(map[string]*topology.Node, len(nodes))}
	for _, obj := range nodes {
		if n, ok := obj.(*kubeNode); ok {
			snap.Nodes = append(snap.Nodes, s.written.newest(n).node)
		}
	}
	snap.AddWorkers(s.workerPods())
	for _, watch := range s.slinky {
		watch.addTo(snap)
	}
	snap.Fabrics = s.fabrics.Read()
	snap.Slices = inputs.ReadSlices(s.slices.slices())
	for _, obj := range s.reports.List() {
		if r, ok := obj.(*kubeReport); ok {
			snap.AddReport(r.Name, r.node, r.err)
		}
	}
	return snap, nil
}

// SlurmStates returns Slurm's words for the state of each node with a worker pod in the
// namespaces, by the node's name. "" stands for all namespaces.
func (s *Store) SlurmStates(namespaces []string) map[string]string {
	out := map[string]string{}
	all := slices.Contains(namespaces, "")
	for _, pods := range s.workers {
		for _, obj := range pods.List() {
			if pod, ok := obj.(*workerPod); ok && pod.State != "" && !pod.Worker.Ending && (all || slices.Contains(namespaces, pod.Namespace)) {
				out[pod.Worker.Node] = inputs.JoinStates(out[pod.Worker.Node], pod.State)
			}
		}
	}
	return out
}

func (s *Store) workerPods() []inputs.Worker {
	var out []inputs.Worker
	for _, pods := range s.workers {
		for _, obj := range pods.List() {
			if pod, ok := obj.(*workerPod); ok && pod.Worker != (inputs.Worker{}) {
				out = append(out, pod.Worker)
			}
		}
	}
	return out
}

// Load returns what is published, or nil if nothing is.
func (p Plans) Load(ctx context.Context, place plandoc.Location) (*plandoc.Published, error) {
	cm, err := p.Client.CoreV1().ConfigMaps(place.Namespace).Get(ctx, place.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read publication %s: %w", place, err)
	}
	if cm.Labels[kindLabel] != kindPublication {
		return nil, fmt.Errorf("ConfigMap %s exists and is not Quoin's: configure another name, or hand it over with the label %s=%s", place, kindLabel, kindPublication)
	}
	return &plandoc.Published{Files: cm.Data, Annotations: cm.Annotations, Version: cm.ResourceVersion}, nil
}

// confirmLead returns an error if another publisher leads now.
func (s *Store) confirmLead(ctx context.Context) error {
	if e := s.election.Load(); e != nil {
		return e.confirm(ctx)
	}
	return nil
}

// Save writes a publication. One patch carries files and annotations together, and
// only onto the version that Load returned. Save returns the new version.
func (s *Store) Save(ctx context.Context, p plandoc.Location, out *plandoc.Published) (version string, err error) {
	if err := s.confirmLead(ctx); err != nil {
		return "", fmt.Errorf("write publication %s: %w", p, err)
	}
	api := s.Client.CoreV1().ConfigMaps(p.Namespace)
	owned := map[string]string{"app.kubernetes.io/managed-by": "quoin", kindLabel: kindPublication}
	if out.Version == "" {
		cm, err := api.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Namespace, Labels: owned, Annotations: out.Annotations},
			Data:       out.Files,
		}, metav1.CreateOptions{FieldManager: fieldManager})
		if err != nil {
			return "", fmt.Errorf("write publication %s: %w", p, err)
		}
		return cm.ResourceVersion, nil
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": out.Version, "labels": owned, "annotations": withNulls(out.Annotations, plandoc.OwnAnnotations)},
		"data":     withNulls(out.Files, plandoc.OwnFiles),
	})
	if err != nil {
		return "", fmt.Errorf("write publication %s: %w", p, err)
	}
	cm, err := api.Patch(ctx, p.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	if err != nil {
		return "", fmt.Errorf("write publication %s: %w", p, err)
	}
	return cm.ResourceVersion, nil
}

// withNulls returns values with a null, which deletes in a merge patch, for
// each of keys that it lacks.
func withNulls(values map[string]string, keys []string) map[string]any {
	out := make(map[string]any, len(values)+len(keys))
	for _, k := range keys {
		out[k] = nil
	}
	for k, v := range values {
		out[k] = v
	}
	return out
}

// Lead stands for election and runs lead each time that this publisher is elected.
func (s *Store) Lead(ctx context.Context, lead func(context.Context) error) error {
	e, err := newElection(s.Client, s.Namespace, s.log)
	if err != nil {
		return err
	}
	s.election.Store(e)
	return e.run(ctx, lead)
}

// Ready asks whether the first lists are in and the API server answers.
func (s *Store) Ready(ctx context.Context) error {
	for _, synced := range s.synced {
		if !synced() {
			return errors.New("nodes, reports and other watched objects have not been read yet" + because(s.health))
		}
	}
	_, err := s.Client.CoordinationV1().Leases(s.Namespace).Get(ctx, leaseName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("the API server does not answer: %w", err)
	}
	return nil
}

// because returns ": " and what is wrong now, or "".
func because(h *apihealth.Health) string {
	if all := h.String(); all != "" {
		return ": " + all
	}
	return ""
}
