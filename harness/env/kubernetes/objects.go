package kubernetes

import (
	"fmt"
	"regexp"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"stampede/harness/env"
)

const (
	// planFolder and partFolder are where the volumes of the plan and of the recorded part are
	// mounted; planFile is the plan's file and key.
	planFolder, planFile, partFolder = "/plan", "plan.yaml", "/part"
	// container is the name of a generator's container.
	container = "generator"
	// keptFor is the Job's time to live after its pods have ended.
	keptFor = 5 * time.Minute
	// endIn is the pods' termination grace period.
	endIn = 2 * time.Second
	// user is the container's user and group: nobody's.
	user = 65532
)

// job is the Job of a batch.
func (e Engine) job(b env.Batch) (*batch.Job, error) {
	self, err := env.OwnerOf(b.RunID)
	if err != nil {
		return nil, err
	}
	labels := map[string]string{"app.kubernetes.io/name": "stampede", env.RunLabel: b.RunID,
		env.ClusterLabel: b.Object()}
	count, kept, mode := int32(b.Count), int32(keptFor.Seconds()), batch.IndexedCompletion
	return &batch.Job{
		TypeMeta: meta.TypeMeta{APIVersion: "batch/v1", Kind: "Job"},
		ObjectMeta: meta.ObjectMeta{Name: b.Object(), Namespace: e.Namespace, Labels: labels,
			Annotations: self.Labels()},
		Spec: batch.JobSpec{
			Completions: &count, Parallelism: &count, CompletionMode: &mode,
			// backoffLimit: 0 would delete all pods when the first one fails.
			BackoffLimitPerIndex:    new(int32),
			ActiveDeadlineSeconds:   new(int64(b.Within.Seconds())),
			TTLSecondsAfterFinished: &kept,
			Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels},
				Spec: e.pod(b.Object(), labels)},
		},
	}, nil
}

// pod is a generator's pod. It meets the Pod Security Standard "restricted".
func (e Engine) pod(name string, labels map[string]string) core.PodSpec {
	no, yes, id := false, true, int64(user)
	return core.PodSpec{
		RestartPolicy:                 core.RestartPolicyNever,
		TerminationGracePeriodSeconds: new(int64(endIn.Seconds())),
		AutomountServiceAccountToken:  &no,
		EnableServiceLinks:            &no,
		SecurityContext: &core.PodSecurityContext{RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id,
			FSGroup:        &id,
			SeccompProfile: &core.SeccompProfile{Type: core.SeccompProfileTypeRuntimeDefault}},
		TopologySpreadConstraints: []core.TopologySpreadConstraint{{MaxSkew: 1,
			TopologyKey: core.LabelHostname, WhenUnsatisfiable: core.ScheduleAnyway,
			LabelSelector: &meta.LabelSelector{MatchLabels: map[string]string{
				env.ClusterLabel: labels[env.ClusterLabel]}}}},
		Containers: []core.Container{{
			Name: container, Image: e.Image, ImagePullPolicy: core.PullIfNotPresent,
			Args: []string{"generate", "--plan", planFolder + "/" + planFile, "--out", partFolder},
			Env: []core.EnvVar{{Name: env.NodeVariable, ValueFrom: &core.EnvVarSource{
				FieldRef: &core.ObjectFieldSelector{FieldPath: "spec.nodeName"}}}},
			SecurityContext: &core.SecurityContext{AllowPrivilegeEscalation: &no,
				ReadOnlyRootFilesystem: &yes,
				Capabilities:           &core.Capabilities{Drop: []core.Capability{"ALL"}}},
			VolumeMounts: []core.VolumeMount{
				{Name: "plan", MountPath: planFolder, ReadOnly: true},
				{Name: "part", MountPath: partFolder}},
		}},
		Volumes: []core.Volume{
			{Name: "plan", VolumeSource: core.VolumeSource{
				Secret: &core.SecretVolumeSource{SecretName: name}}},
			{Name: "part", VolumeSource: core.VolumeSource{EmptyDir: &core.EmptyDirVolumeSource{}}}},
	}
}

// secret is the Secret with the plan. The Job owns it.
func secret(job *batch.Job, plan []byte) *core.Secret {
	yes := true
	return &core.Secret{
		TypeMeta: meta.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: meta.ObjectMeta{Name: job.Name, Namespace: job.Namespace, Labels: job.Labels,
			OwnerReferences: []meta.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job.Name,
				UID: job.UID, BlockOwnerDeletion: &yes}}},
		Data: map[string][]byte{planFile: plan},
	}
}

// Show implements env.Engine. It leaves out the Secret's data.
func (e Engine) Show(b env.Batch) (string, error) {
	job, err := e.job(b)
	if err != nil {
		return "", err
	}
	held := secret(job, nil)
	held.Data = nil
	// The fields that only the API server fills in.
	unset := regexp.MustCompile(`(?m)^ *((status|resources): {}|creationTimestamp: null|uid: "")\n`)
	text := ""
	for _, object := range []any{job, held} {
		one, err := yaml.Marshal(object)
		if err != nil {
			return "", fmt.Errorf("write a manifest: %w", err)
		}
		text += "---\n" + unset.ReplaceAllString(string(one), "")
	}
	return text + "# data: " + planFile + ", not shown because it holds the coordinator's token\n", nil
}
