package inputs

import (
	"strings"

	"github.com/quoin-hpc/quoin/slurmconf"
)

// Controller is what is read of one of Slinky's Controllers.
type Controller struct {
	Namespace, Name string
	// Image is that of slurmctld.
	Image string
}

// ReadController reads an object of a Controller. What is not a text counts as absent.
func ReadController(namespace, name string, object map[string]any) Controller {
	spec, _ := object["spec"].(map[string]any)
	slurmctld, _ := spec["slurmctld"].(map[string]any)
	image, _ := slurmctld["image"].(string)
	return Controller{namespace, name, image}
}

// String names the Controller as NAMESPACE/NAME.
func (c Controller) String() string { return c.Namespace + "/" + c.Name }

// Release returns the release that the tag of the image begins with, or 0.
func (c Controller) Release() slurmconf.Release { return slurmconf.SeenRelease(TagOf(c.Image)) }

// TagOf returns the tag of an image, or "".
func TagOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	if at := strings.LastIndex(image, ":"); at > strings.LastIndex(image, "/") {
		return image[at+1:]
	}
	return ""
}
