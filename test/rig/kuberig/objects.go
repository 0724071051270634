package kuberig

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/quoin-hpc/quoin/test/rig/await"
)

// Objects reads and writes objects of all kinds with the rights of one account. It does what
// kubectl does, but a process of kubectl costs more than most requests. Resources have the names
// that kubectl takes: nodes, or with their group where other groups have that name too.
type Objects struct {
	client dynamic.Interface
	kinds  *kinds
}

// Objects has the rights of the administrator.
func (c *Cluster) Objects() *Objects { return c.objects(c.Config()) }

// ObjectsOf has the rights of a kubeconfig from Token.
func (c *Cluster) ObjectsOf(kubeconfig string) (*Objects, error) {
	rc, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	config := c.Config()
	config.BearerToken = rc.BearerToken
	return c.objects(config), nil
}

func (c *Cluster) objects(config *rest.Config) *Objects {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		panic("kuberig: " + err.Error()) // the configuration is constant
	}
	return &Objects{client, c.kinds}
}

// Apply applies the objects of YAML files, and of all YAML files in folders by their names, as
// `kubectl apply --server-side` does. It returns when the API server serves the kinds that are
// defined there.
func (o *Objects) Apply(ctx context.Context, paths ...string) error {
	return eachFile(paths, func(text string) error { return o.ApplyText(ctx, text) })
}

// ApplyText applies the objects of a YAML text as Apply does. dryRun may be metav1.DryRunAll,
// here and below.
func (o *Objects) ApplyText(ctx context.Context, text string, dryRun ...string) error {
	options := metav1.PatchOptions{DryRun: dryRun, FieldManager: "rig", Force: new(true), FieldValidation: metav1.FieldValidationStrict}
	return o.each(text, func(r dynamic.ResourceInterface, u *unstructured.Unstructured, text []byte) error {
		if _, err := r.Patch(ctx, u.GetName(), types.ApplyYAMLPatchType, text, options); err != nil {
			return fmt.Errorf("apply %s %s: %w", u.GetKind(), u.GetName(), err)
		}
		if u.GetKind() == "CustomResourceDefinition" && len(dryRun) == 0 {
			return o.serves(ctx, u)
		}
		return nil
	})
}

// Create creates the objects of a YAML text.
func (o *Objects) Create(ctx context.Context, text string, dryRun ...string) error {
	options := metav1.CreateOptions{DryRun: dryRun, FieldValidation: metav1.FieldValidationStrict}
	return o.each(text, func(r dynamic.ResourceInterface, u *unstructured.Unstructured, _ []byte) error {
		_, err := r.Create(ctx, u, options)
		return err
	})
}

// Replace replaces the objects of a YAML text, whatever they are now.
func (o *Objects) Replace(ctx context.Context, text string) error {
	return o.each(text, func(r dynamic.ResourceInterface, u *unstructured.Unstructured, _ []byte) error {
		now, err := r.Get(ctx, u.GetName(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		u.SetResourceVersion(now.GetResourceVersion())
		_, err = r.Update(ctx, u, metav1.UpdateOptions{FieldValidation: metav1.FieldValidationStrict})
		return err
	})
}

// Patch merges a patch in JSON into an object. The namespace is empty for what is in none.
func (o *Objects) Patch(ctx context.Context, resource, namespace, name, patch string, dryRun ...string) error {
	r, err := o.resource(resource, namespace)
	if err != nil {
		return err
	}
	_, err = r.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{DryRun: dryRun})
	return err
}

// Get reads an object.
func (o *Objects) Get(ctx context.Context, resource, namespace, name string) (*unstructured.Unstructured, error) {
	r, err := o.resource(resource, namespace)
	if err != nil {
		return nil, err
	}
	return r.Get(ctx, name, metav1.GetOptions{})
}

// Now reads the first object of a YAML text as the API server has it.
func (o *Objects) Now(ctx context.Context, text string) (now *unstructured.Unstructured, err error) {
	err = o.each(text, func(r dynamic.ResourceInterface, u *unstructured.Unstructured, _ []byte) error {
		now, err = r.Get(ctx, u.GetName(), metav1.GetOptions{})
		return err
	})
	return now, err
}

// List reads all objects of resources, whose names have commas between them, in a namespace or,
// if that is empty, in all. They come in the order in which `kubectl get` prints them.
func (o *Objects) List(ctx context.Context, resources, namespace string) (*unstructured.UnstructuredList, error) {
	all := &unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
	for name := range strings.SplitSeq(resources, ",") {
		r, err := o.resource(name, namespace)
		if err != nil {
			return nil, err
		}
		list, err := r.List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		all.Items = append(all.Items, list.Items...)
	}
	return all, nil
}

// Delete deletes objects, and waits until they are gone.
func (o *Objects) Delete(ctx context.Context, resource, namespace string, names ...string) error {
	r, err := o.resource(resource, namespace)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := deleteObject(ctx, r, name); err != nil {
			return err
		}
	}
	return nil
}

// DeleteFiles deletes the objects of YAML files, and waits until they are gone.
func (o *Objects) DeleteFiles(ctx context.Context, paths ...string) error {
	return eachFile(paths, func(text string) error {
		return o.each(text, func(r dynamic.ResourceInterface, u *unstructured.Unstructured, _ []byte) error {
			return deleteObject(ctx, r, u.GetName())
		})
	})
}

// deleteObject deletes one object, and waits until it is gone. One that is not marked as deleted
// is another one of the same name.
func deleteObject(ctx context.Context, r dynamic.ResourceInterface, name string) error {
	if err := r.Delete(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}); err != nil {
		return err
	}
	return await.NoError(ctx, "wait for the end of "+name, func(ctx context.Context) error {
		now, err := r.Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && now.GetDeletionTimestamp() == nil {
			return nil
		}
		return cmp.Or(err, errors.New("it is there"))
	})
}

// serves waits until the API server serves what a CustomResourceDefinition defines: it is
// established, its objects can be listed, and its kind is told to who asks for all kinds.
func (o *Objects) serves(ctx context.Context, definition *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(definition.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(definition.Object, "spec", "names", "plural")
	return await.NoError(ctx, "wait for served objects of "+definition.GetName(), func(ctx context.Context) error {
		if err := o.established(ctx, definition.GetName()); err != nil {
			return err
		}
		r, err := o.resource(plural+"."+group, "")
		if err != nil {
			return err
		}
		_, err = r.List(ctx, metav1.ListOptions{Limit: 1})
		return err
	})
}

func (o *Objects) established(ctx context.Context, definition string) error {
	now, err := o.Get(ctx, "customresourcedefinitions", "", definition)
	if err != nil {
		return err
	}
	conditions, _, _ := unstructured.NestedSlice(now.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
			return nil
		}
	}
	return errors.New("it is not established")
}

// resource is the client of a resource in a namespace.
func (o *Objects) resource(name, namespace string) (dynamic.ResourceInterface, error) {
	mapping, err := o.kinds.ofResource(name)
	if err != nil {
		return nil, err
	}
	return o.client.Resource(mapping.Resource).Namespace(namespace), nil
}

// each does something with each object of a YAML text. One without a namespace is in default.
func (o *Objects) each(text string, do func(r dynamic.ResourceInterface, u *unstructured.Unstructured, text []byte) error) error {
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read YAML: %w", err)
		}
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &u.Object); err != nil {
			return fmt.Errorf("read YAML: %w\n%s", err, document)
		}
		if len(u.Object) == 0 { // comments
			continue
		}
		r, err := o.clientOf(u)
		if err != nil {
			return err
		}
		if err := do(r, u, document); err != nil {
			return err
		}
	}
}

func (o *Objects) clientOf(u *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := o.kinds.ofKind(u.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	r := o.client.Resource(mapping.Resource)
	switch namespace := u.GetNamespace(); {
	case !namespaced(mapping):
		return r, nil
	case namespace == "":
		return r.Namespace(metav1.NamespaceDefault), nil
	default:
		return r.Namespace(namespace), nil
	}
}

// eachFile does something with the text of each file, and of each YAML file in a folder by its name.
func eachFile(paths []string, do func(text string) error) error {
	for _, path := range paths {
		files := []string{path}
		if info, err := os.Stat(path); err != nil {
			return err
		} else if info.IsDir() {
			if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
				return err
			}
		}
		for _, file := range files {
			if filepath.Base(file) == "kustomization.yaml" { // it is no object
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			if err := do(string(text)); err != nil {
				return fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return nil
}
