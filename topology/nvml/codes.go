//go:build cgo

package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// errUnsupported: this GPU or driver does not have the fact, which is no problem.
var errUnsupported = errors.New("not supported")

// failure turns a return code into nil, errUnsupported or another error.
func failure(ret nvml.Return) error {
	switch ret {
	case nvml.SUCCESS:
		return nil
	case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_FUNCTION_NOT_FOUND, nvml.ERROR_ARGUMENT_VERSION_MISMATCH:
		return errUnsupported
	}
	return errors.New(code(ret))
}

// names are the return codes by their names in NVML's header, without ERROR_. They are
// taken from go-nvml before it loads a library: afterwards it asks the library, whose
// text changes with the driver, and a report must not.
var names = namesOf()

func namesOf() map[nvml.Return]string {
	out := map[nvml.Return]string{ // go-nvml names the codes up to DEPRECATED
		nvml.ERROR_NOT_READY:                "NOT_READY",
		nvml.ERROR_GPU_NOT_FOUND:            "GPU_NOT_FOUND",
		nvml.ERROR_INVALID_STATE:            "INVALID_STATE",
		nvml.ERROR_RESET_TYPE_NOT_SUPPORTED: "RESET_TYPE_NOT_SUPPORTED",
		nvml.ERROR_UNKNOWN:                  "UNKNOWN",
	}
	for ret := nvml.SUCCESS; ret <= nvml.ERROR_DEPRECATED; ret++ {
		out[ret] = strings.TrimPrefix(ret.Error(), "ERROR_")
	}
	return out
}

// code names a return code.
func code(ret nvml.Return) string {
	if name, ok := names[ret]; ok {
		return name
	}
	return fmt.Sprintf("NVML error %d", int(ret))
}

// notInitialised explains why NVML could not be initialised.
func notInitialised(ret nvml.Return) error {
	remedy := ""
	switch ret {
	case nvml.ERROR_DRIVER_NOT_LOADED:
		remedy = "; is the kernel module nvidia loaded?"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		remedy = "; library and kernel module are of two releases: reboot the node, or restart the container"
	case nvml.ERROR_NO_PERMISSION:
		remedy = "; may this user open /dev/nvidiactl and /dev/nvidia0? In a container, are the devices there?"
	}
	return fmt.Errorf("initialise NVML: %s%s", code(ret), remedy)
}
