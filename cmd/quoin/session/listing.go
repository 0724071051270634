package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/quoin-hpc/quoin/slurmconf/publisher/inputs"
)

// The lists that commands read, as kubectl get -o json prints them, so that a cluster and a file are
// read alike. Not every cluster has every kind.
var (
	// nodeLists are what quoin render takes beside worker pods.
	nodeLists = []string{"/api/v1/nodes", "/apis/quoin.dev/v1alpha1/nodereports", "/apis/resource.k8s.io/v1/resourceslices"}
	// domainLists are what quoin imex check takes.
	domainLists = []string{"/api/v1/nodes", "/api/v1/pods", "/apis/resource.k8s.io/v1/resourceclaims", "/apis/resource.nvidia.com/v1beta1/computedomains",
		"/apis/resource.nvidia.com/v1beta1/computedomaincliques", "/apis/resource.k8s.io/v1/deviceclasses", "/apis/apps/v1/daemonsets", "/apis/apps/v1/deployments"}
)

// podLists are the worker pods: Slinky's, and those by which publications name nodes.
func podLists(naming []inputs.NamingPods) []string {
	lists := []string{"/api/v1/pods?labelSelector=" + inputs.WorkerSelector}
	for _, pods := range naming {
		lists = append(lists, "/api/v1/namespaces/"+pods.Namespace+"/pods?labelSelector="+url.QueryEscape(pods.Text))
	}
	return lists
}

// page is how many objects one answer has at most.
const page = "500"

// openLists returns a reader of the lists, one JSON document for each page. A kind that the API server
// does not know is left out.
func openLists(ctx context.Context, rc *rest.Config, lists []string) (io.ReadCloser, error) {
	client, err := kubernetes.NewForConfig(rc)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	out, in := io.Pipe()
	go func() {
		for _, list := range lists {
			err := Pages(ctx, client, list, func(text []byte) error {
				if _, err := in.Write(append(text, '\n')); err != nil {
					return errGone
				}
				return nil
			})
			if err != nil {
				_ = in.CloseWithError(&listError{list, err})
				return
			}
		}
		_ = in.Close()
	}()
	return out, nil
}

// listError says which list the API server did not give.
type listError struct {
	list string
	err  error
}

// Error returns the text.
func (e *listError) Error() string { return "list " + e.list + ": " + e.err.Error() }

// Unwrap returns what the API server said.
func (e *listError) Unwrap() error { return e.err }

// cause returns the listError that ended the reading of lists, if there is one, and err otherwise.
func cause(err error) error {
	if e := (*listError)(nil); errors.As(err, &e) {
		return e
	}
	return err
}

// errGone says that nobody reads any more.
var errGone = errors.New("nobody reads")

// Pages reads a list, or one object, by its path on the API server, and calls each with the JSON text of every page.
// each is not called if the API server does not know the kind or the object.
func Pages(ctx context.Context, client kubernetes.Interface, path string, each func(text []byte) error) error {
	for next := ""; ; {
		request := client.CoreV1().RESTClient().Get().RequestURI(path).Param("limit", page)
		if next != "" {
			request = request.Param("continue", next)
		}
		answer := request.Do(ctx)
		text, _ := answer.Raw()
		err := answer.Error() // reads the Status that the API server sends
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			err = each(text)
		}
		if err != nil {
			return err
		}
		var read struct{ Metadata struct{ Continue string } }
		if err := json.Unmarshal(text, &read); err != nil {
			return err
		}
		if next = read.Metadata.Continue; next == "" {
			return nil
		}
	}
}
