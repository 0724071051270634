package computedomain

import (
	"cmp"
	"maps"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
)

// source keeps facts of the objects that a reflector lists and watches. Of an
// object without facts nothing is kept: a cluster has tens of thousands of
// claims and pods that have to do with something else.
type source[T any] struct {
	// read returns what is to be kept of an object, if anything is.
	read func(obj any) (T, bool)
	// changed is called when other facts are kept than before.
	changed func()

	mu     sync.Mutex
	facts  map[types.NamespacedName]T
	synced bool
}

func newSource[T any](read func(any) (T, bool), changed func()) *source[T] {
	return &source[T]{read: read, changed: changed, facts: map[types.NamespacedName]T{}}
}

// slimmed takes the place of an object until the first list is whole.
type slimmed[T any] struct {
	metav1.ObjectMeta
	facts T
	keep  bool
}

// Transformer implements cache.TransformingStore.
func (s *source[T]) Transformer() cache.TransformFunc {
	return func(obj any) (any, error) {
		object, err := meta.Accessor(obj)
		if err != nil {
			return nil, err
		}
		facts, keep := s.read(obj)
		return &slimmed[T]{metav1.ObjectMeta{Namespace: object.GetNamespace(), Name: object.GetName()}, facts, keep}, nil
	}
}

// parts returns an object's key and facts, slimmed before or not.
func (s *source[T]) parts(obj any) (types.NamespacedName, T, bool, error) {
	object, err := meta.Accessor(obj)
	if err != nil {
		var none T
		return types.NamespacedName{}, none, false, err
	}
	key := types.NamespacedName{Namespace: object.GetNamespace(), Name: object.GetName()}
	if slim, ok := obj.(*slimmed[T]); ok {
		return key, slim.facts, slim.keep, nil
	}
	facts, keep := s.read(obj)
	return key, facts, keep, nil
}

// Add implements cache.ReflectorStore.
func (s *source[T]) Add(obj any) error { return s.Update(obj) }

// Update implements cache.ReflectorStore.
func (s *source[T]) Update(obj any) error {
	key, facts, keep, err := s.parts(obj)
	if err != nil {
		return err
	}
	if s.put(key, facts, keep) {
		s.changed()
	}
	return nil
}

// put keeps an object's facts, or none, and reports whether that is a change.
func (s *source[T]) put(key types.NamespacedName, facts T, keep bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, had := s.facts[key]
	if had == keep && (!keep || reflect.DeepEqual(was, facts)) {
		return false
	}
	if keep {
		s.facts[key] = facts
	} else {
		delete(s.facts, key)
	}
	return true
}

// Delete implements cache.ReflectorStore.
func (s *source[T]) Delete(obj any) error {
	key, none, _, err := s.parts(obj)
	if err != nil {
		return err
	}
	if s.put(key, none, false) {
		s.changed()
	}
	return nil
}

// Replace implements cache.ReflectorStore.
func (s *source[T]) Replace(list []any, _ string) error {
	all := map[types.NamespacedName]T{}
	for _, obj := range list {
		key, facts, keep, err := s.parts(obj)
		if err != nil {
			return err
		}
		if keep {
			all[key] = facts
		}
	}
	s.mu.Lock()
	same := s.synced && reflect.DeepEqual(s.facts, all)
	if !same {
		s.facts, s.synced = all, true
	}
	s.mu.Unlock()
	if !same {
		s.changed()
	}
	return nil
}

// Resync implements cache.ReflectorStore.
func (s *source[T]) Resync() error { return nil }

// forget drops everything, as before the first list.
func (s *source[T]) forget() {
	s.mu.Lock()
	had := s.synced
	s.facts, s.synced = map[types.NamespacedName]T{}, false
	s.mu.Unlock()
	if had {
		s.changed()
	}
}

// all returns the facts, and whether a first list has been read.
func (s *source[T]) all() (map[types.NamespacedName]T, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.facts), s.synced
}

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
