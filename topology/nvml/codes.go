//go:build cgo

package nvml

import (
	"errors"
	"fmt"

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

// code names a return code as NVML's header does, without NVML_ERROR_. NVML's own
// text changes with the driver, and a report must not.
func code(ret nvml.Return) string {
	names := [...]string{
		nvml.SUCCESS:                         "SUCCESS",
		nvml.ERROR_UNINITIALIZED:             "UNINITIALIZED",
		nvml.ERROR_INVALID_ARGUMENT:          "INVALID_ARGUMENT",
		nvml.ERROR_NOT_SUPPORTED:             "NOT_SUPPORTED",
		nvml.ERROR_NO_PERMISSION:             "NO_PERMISSION",
		nvml.ERROR_ALREADY_INITIALIZED:       "ALREADY_INITIALIZED",
		nvml.ERROR_NOT_FOUND:                 "NOT_FOUND",
		nvml.ERROR_INSUFFICIENT_SIZE:         "INSUFFICIENT_SIZE",
		nvml.ERROR_INSUFFICIENT_POWER:        "INSUFFICIENT_POWER",
		nvml.ERROR_DRIVER_NOT_LOADED:         "DRIVER_NOT_LOADED",
		nvml.ERROR_TIMEOUT:                   "TIMEOUT",
		nvml.ERROR_IRQ_ISSUE:                 "IRQ_ISSUE",
		nvml.ERROR_LIBRARY_NOT_FOUND:         "LIBRARY_NOT_FOUND",
		nvml.ERROR_FUNCTION_NOT_FOUND:        "FUNCTION_NOT_FOUND",
		nvml.ERROR_CORRUPTED_INFOROM:         "CORRUPTED_INFOROM",
		nvml.ERROR_GPU_IS_LOST:               "GPU_IS_LOST",
		nvml.ERROR_RESET_REQUIRED:            "RESET_REQUIRED",
		nvml.ERROR_OPERATING_SYSTEM:          "OPERATING_SYSTEM",
		nvml.ERROR_LIB_RM_VERSION_MISMATCH:   "LIB_RM_VERSION_MISMATCH",
		nvml.ERROR_IN_USE:                    "IN_USE",
		nvml.ERROR_MEMORY:                    "MEMORY",
		nvml.ERROR_NO_DATA:                   "NO_DATA",
		nvml.ERROR_VGPU_ECC_NOT_SUPPORTED:    "VGPU_ECC_NOT_SUPPORTED",
		nvml.ERROR_INSUFFICIENT_RESOURCES:    "INSUFFICIENT_RESOURCES",
		nvml.ERROR_FREQ_NOT_SUPPORTED:        "FREQ_NOT_SUPPORTED",
		nvml.ERROR_ARGUMENT_VERSION_MISMATCH: "ARGUMENT_VERSION_MISMATCH",
		nvml.ERROR_DEPRECATED:                "DEPRECATED",
		nvml.ERROR_NOT_READY:                 "NOT_READY",
		nvml.ERROR_GPU_NOT_FOUND:             "GPU_NOT_FOUND",
		nvml.ERROR_INVALID_STATE:             "INVALID_STATE",
		nvml.ERROR_RESET_TYPE_NOT_SUPPORTED:  "RESET_TYPE_NOT_SUPPORTED",
	}
	switch {
	case ret == nvml.ERROR_UNKNOWN:
		return "UNKNOWN"
	case ret < 0 || int(ret) >= len(names):
		return fmt.Sprintf("NVML error %d", int(ret))
	}
	return names[ret]
}

// notInitialised explains why NVML could not be initialised.
func notInitialised(ret nvml.Return) error {
	advice := ""
	switch ret {
	case nvml.ERROR_DRIVER_NOT_LOADED:
		advice = "; is the kernel module nvidia loaded?"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		advice = "; library and kernel module are of two releases: reboot the node, or restart the container"
	case nvml.ERROR_NO_PERMISSION:
		advice = "; may this user open /dev/nvidiactl and /dev/nvidia0? In a container, are the devices there?"
	}
	return fmt.Errorf("initialise NVML: %s%s", code(ret), advice)
}
