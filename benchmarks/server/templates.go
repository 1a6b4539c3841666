package main

import "strings"

// The objects of a cluster in use, as kube-apiserver 1.36 returns them: installed by Helm, rolled out by the
// controllers, with the fields of both. Parts that occur in several kinds are written once.

const chartLabels = `"app.kubernetes.io/instance":"<<app>>","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/name":"<<noun>>","app.kubernetes.io/version":"<<release>>","helm.sh/chart":"<<noun>>-<<release>>"`

const chartFields = `"f:metadata":{"f:annotations":{".":{},"f:bench.steersman.dev/sent-at":{},"f:meta.helm.sh/release-name":{},"f:meta.helm.sh/release-namespace":{}},"f:labels":{".":{},"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/managed-by":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/version":{},"f:helm.sh/chart":{}}}`

const selector = `"app.kubernetes.io/instance":"<<app>>","app.kubernetes.io/name":"<<noun>>"`

// head begins an object that Helm installed; more are further fields of metadata behind its annotations.
func head(kind, apiVersion, generation, more, fields string) string {
	return `{"kind":"` + kind + `","apiVersion":"` + apiVersion + `","metadata":{"name":"<<name>>","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>",` + generation + `"creationTimestamp":"<<created>>",
"labels":{` + chartLabels + `},"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>",` + more + `"meta.helm.sh/release-name":"<<app>>","meta.helm.sh/release-namespace":"<<ns>>"},
"managedFields":[` + entry("helm", apiVersion, "<<created>>", chartFields+fields, "")
}

func entry(manager, apiVersion, time, fields, subresource string) string {
	if subresource != "" {
		subresource = `,"subresource":"` + subresource + `"`
	}
	return `{"manager":"` + manager + `","operation":"Update","apiVersion":"` + apiVersion + `","time":"` + time + `","fieldsType":"FieldsV1","fieldsV1":{` + fields + `}` + subresource + `}`
}

const (
	counted   = `"generation":<<generation>>,`
	uncounted = ""
)

// podTemplate is what Deployments, ReplicaSets and Jobs have in common.
func podTemplate(labels, restart string) string {
	return `{"metadata":{"labels":{` + labels + `},"annotations":{"checksum/config":"<<hex64>>"}},"spec":{"volumes":[{"name":"config","configMap":{"name":"<<app>>-config","defaultMode":420}},{"name":"tmp","emptyDir":{}}],
"containers":[{"name":"<<noun>>","image":"<<image>>","args":["--listen=:<<port>>","--upstream=<<host>>"],"ports":[{"name":"http","containerPort":<<port>>,"protocol":"TCP"}],
"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"UPSTREAM","value":"https://<<host>>:<<port>>"},{"name":"DATABASE_PASSWORD","valueFrom":{"secretKeyRef":{"name":"<<app>>","key":"password"}}},{"name":"POD_IP","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"status.podIP"}}}],
"resources":{"limits":{"cpu":"<<milli>>","memory":"<<mebi>>"},"requests":{"cpu":"<<milli>>","memory":"<<mebi>>"}},
"volumeMounts":[{"name":"config","readOnly":true,"mountPath":"/etc/<<noun>>"},{"name":"tmp","mountPath":"/tmp"}],
"livenessProbe":{"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"readinessProbe":{"httpGet":{"path":"/readyz","port":"http","scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent","securityContext":{"capabilities":{"drop":["ALL"]},"readOnlyRootFilesystem":true}}],
"restartPolicy":"` + restart + `","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"<<app>>","serviceAccount":"<<app>>","securityContext":{"runAsNonRoot":true,"fsGroup":2000},"schedulerName":"default-scheduler"}}`
}

const probeFields = `{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}},"f:periodSeconds":{},"f:successThreshold":{},"f:timeoutSeconds":{}}`

func podTemplateFields(labels string) string {
	variable := func(name, value string) string {
		return `"k:{\"name\":\"` + name + `\"}":{".":{},"f:name":{},` + value + `}`
	}
	return `"f:template":{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{}},"f:labels":{".":{},` + labels + `}},"f:spec":{"f:containers":{"k:{\"name\":\"<<noun>>\"}":{".":{},"f:args":{},
"f:env":{".":{},` + variable("DATABASE_PASSWORD", `"f:valueFrom":{".":{},"f:secretKeyRef":{}}`) + `,` + variable("LOG_LEVEL", `"f:value":{}`) + `,` + variable("POD_IP", `"f:valueFrom":{".":{},"f:fieldRef":{}}`) + `,` + variable("UPSTREAM", `"f:value":{}`) + `},
"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":` + probeFields + `,"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:name":{},"f:protocol":{}}},"f:readinessProbe":` + probeFields + `,
"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}},"f:securityContext":{".":{},"f:capabilities":{".":{},"f:drop":{}},"f:readOnlyRootFilesystem":{}},"f:terminationMessagePath":{},"f:terminationMessagePolicy":{},
"f:volumeMounts":{".":{},"k:{\"mountPath\":\"/etc/<<noun>>\"}":{".":{},"f:mountPath":{},"f:name":{},"f:readOnly":{}},"k:{\"mountPath\":\"/tmp\"}":{".":{},"f:mountPath":{},"f:name":{}}}}},
"f:dnsPolicy":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{".":{},"f:fsGroup":{},"f:runAsNonRoot":{}},"f:serviceAccount":{},"f:serviceAccountName":{},"f:terminationGracePeriodSeconds":{},
"f:volumes":{".":{},"k:{\"name\":\"config\"}":{".":{},"f:configMap":{".":{},"f:defaultMode":{},"f:name":{}},"f:name":{}},"k:{\"name\":\"tmp\"}":{".":{},"f:emptyDir":{},"f:name":{}}}}}`
}

const (
	selectorFields  = `"f:app.kubernetes.io/instance":{},"f:app.kubernetes.io/name":{}`
	conditionFields = `{".":{},"f:lastTransitionTime":{},"f:lastUpdateTime":{},"f:message":{},"f:reason":{},"f:status":{},"f:type":{}}`
)

func deploymentText() string {
	return head("Deployment", "apps/v1", counted, `"deployment.kubernetes.io/revision":"<<small>>",`,
		`,"f:spec":{"f:progressDeadlineSeconds":{},"f:replicas":{},"f:revisionHistoryLimit":{},"f:selector":{},"f:strategy":{"f:rollingUpdate":{".":{},"f:maxSurge":{},"f:maxUnavailable":{}},"f:type":{}},`+podTemplateFields(selectorFields)+`}`) + `,` +
		entry("kube-controller-manager", "apps/v1", "<<later>>", `"f:metadata":{"f:annotations":{"f:deployment.kubernetes.io/revision":{}}},"f:status":{"f:availableReplicas":{},"f:conditions":{".":{},"k:{\"type\":\"Available\"}":`+conditionFields+`,"k:{\"type\":\"Progressing\"}":`+conditionFields+`},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:terminatingReplicas":{},"f:updatedReplicas":{}}`, "status") + `]},
"spec":{"replicas":<<replicas>>,"selector":{"matchLabels":{` + selector + `}},"template":` + podTemplate(selector, "Always") + `,"strategy":{"type":"RollingUpdate","rollingUpdate":{"maxUnavailable":"25%","maxSurge":"25%"}},"revisionHistoryLimit":10,"progressDeadlineSeconds":600},
"status":{"observedGeneration":<<generation>>,"replicas":<<replicas>>,"updatedReplicas":<<replicas>>,"readyReplicas":<<replicas>>,"availableReplicas":<<replicas>>,"terminatingReplicas":0,"conditions":[{"type":"Available","status":"True","lastUpdateTime":"<<later>>","lastTransitionTime":"<<later>>","reason":"MinimumReplicasAvailable","message":"Deployment has minimum availability."},
{"type":"Progressing","status":"True","lastUpdateTime":"<<later>>","lastTransitionTime":"<<created>>","reason":"NewReplicaSetAvailable","message":"ReplicaSet \"<<app>>-<<hash>>\" has successfully progressed."}]}}`
}

// replicaSetText is the present ReplicaSet of a Deployment, or one of its old ones, which has no Pods.
func replicaSetText(replicas string) string {
	labels, fields := selector+`,"pod-template-hash":"<<hash>>"`, selectorFields+`,"f:pod-template-hash":{}`
	status := `"replicas":` + replicas + `,"fullyLabeledReplicas":` + replicas + `,"readyReplicas":` + replicas + `,"availableReplicas":` + replicas + `,`
	if replicas == "0" {
		status = `"replicas":0,`
	}
	return `{"kind":"ReplicaSet","apiVersion":"apps/v1","metadata":{"name":"<<name>>","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>","generation":<<generation>>,"creationTimestamp":"<<created>>",
"labels":{` + labels + `},"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>","deployment.kubernetes.io/desired-replicas":"<<replicas>>","deployment.kubernetes.io/max-replicas":"<<replicas>>","deployment.kubernetes.io/revision":"<<small>>","meta.helm.sh/release-name":"<<app>>","meta.helm.sh/release-namespace":"<<ns>>"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"Deployment","name":"<<app>>","uid":"<<newuid>>","controller":true,"blockOwnerDeletion":true}],
"managedFields":[` + entry("kube-controller-manager", "apps/v1", "<<created>>", `"f:metadata":{"f:annotations":{".":{},"f:deployment.kubernetes.io/desired-replicas":{},"f:deployment.kubernetes.io/max-replicas":{},"f:deployment.kubernetes.io/revision":{},"f:meta.helm.sh/release-name":{},"f:meta.helm.sh/release-namespace":{}},"f:labels":{".":{},`+fields+`},"f:ownerReferences":{".":{},"k:{\"uid\":\"<<newuid>>\"}":{}}},"f:spec":{"f:replicas":{},"f:selector":{},`+podTemplateFields(fields)+`}`, "") + `,` +
		entry("kube-controller-manager", "apps/v1", "<<later>>", `"f:status":{"f:availableReplicas":{},"f:fullyLabeledReplicas":{},"f:observedGeneration":{},"f:readyReplicas":{},"f:replicas":{},"f:terminatingReplicas":{}}`, "status") + `]},
"spec":{"replicas":` + replicas + `,"selector":{"matchLabels":{` + labels + `}},"template":` + podTemplate(labels, "Always") + `},"status":{` + status + `"terminatingReplicas":0,"observedGeneration":<<generation>>}}`
}

func jobText() string {
	labels := `"app.kubernetes.io/instance":"<<app>>","app.kubernetes.io/name":"<<noun>>","batch.kubernetes.io/controller-uid":"<<uid>>","batch.kubernetes.io/job-name":"<<name>>","controller-uid":"<<uid>>","job-name":"<<name>>"`
	condition := func(kind, reason, message string) string {
		return `{"type":"` + kind + `","status":"True","lastProbeTime":"<<later>>","lastTransitionTime":"<<later>>","reason":"` + reason + `","message":"` + message + `"}`
	}
	return head("Job", "batch/v1", counted, "",
		`,"f:spec":{"f:backoffLimit":{},"f:completionMode":{},"f:completions":{},"f:manualSelector":{},"f:parallelism":{},"f:podReplacementPolicy":{},"f:suspend":{},`+podTemplateFields(selectorFields)+`}`) + `,` +
		entry("kube-controller-manager", "batch/v1", "<<later>>", `"f:status":{"f:completionTime":{},"f:conditions":{},"f:ready":{},"f:startTime":{},"f:succeeded":{},"f:terminating":{},"f:uncountedTerminatedPods":{}}`, "status") + `]},
"spec":{"parallelism":1,"completions":1,"backoffLimit":3,"selector":{"matchLabels":{"batch.kubernetes.io/controller-uid":"<<uid>>"}},"manualSelector":false,"template":` + podTemplate(labels, "Never") + `,"completionMode":"NonIndexed","suspend":false,"podReplacementPolicy":"TerminatingOrFailed"},
"status":{"conditions":[` + condition("SuccessCriteriaMet", "CompletionsReached", "Reached expected number of succeeded pods") + `,` + condition("Complete", "CompletionsReached", "Reached expected number of succeeded pods") + `],"startTime":"<<created>>","completionTime":"<<later>>","succeeded":1,"terminating":0,"uncountedTerminatedPods":{},"ready":0}}`
}

func serviceText() string {
	return head("Service", "v1", uncounted, "", `,"f:spec":{"f:internalTrafficPolicy":{},"f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}},"k:{\"port\":9090,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}},"f:selector":{},"f:sessionAffinity":{},"f:type":{}}`) + `]},
"spec":{"ports":[{"name":"http","protocol":"TCP","port":80,"targetPort":"http"},{"name":"metrics","protocol":"TCP","port":9090,"targetPort":<<port>>}],"selector":{` + selector + `},"clusterIP":"<<ip>>","clusterIPs":["<<ip>>"],"type":"ClusterIP","sessionAffinity":"None","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","internalTrafficPolicy":"Cluster"},"status":{"loadBalancer":{}}}`
}

func serviceAccountText() string {
	return head("ServiceAccount", "v1", uncounted, `"iam.example.com/role-arn":"arn:example:iam::<<n>>:role/<<team>>-<<noun>>",`, "") + `]},"imagePullSecrets":[{"name":"registry-<<team>>"}]}`
}

func ingressText() string {
	return head("Ingress", "networking.k8s.io/v1", counted, `"cert-manager.io/cluster-issuer":"letsencrypt","nginx.ingress.kubernetes.io/proxy-body-size":"<<small>>m",`, `,"f:spec":{"f:ingressClassName":{},"f:rules":{},"f:tls":{}}`) + `,` +
		entry("nginx-ingress-controller", "networking.k8s.io/v1", "<<later>>", `"f:status":{"f:loadBalancer":{"f:ingress":{}}}`, "status") + `]},
"spec":{"ingressClassName":"nginx","tls":[{"hosts":["<<name>>.example.com"],"secretName":"<<app>>-tls"}],"rules":[{"host":"<<name>>.example.com","http":{"paths":[{"path":"/","pathType":"Prefix","backend":{"service":{"name":"<<app>>","port":{"number":80}}}},{"path":"/api/<<word>>","pathType":"Prefix","backend":{"service":{"name":"<<word>>","port":{"name":"http"}}}}]}}]},"status":{"loadBalancer":{"ingress":[{"ip":"<<ip>>"}]}}}`
}

func roleText() string {
	return head("Role", "rbac.authorization.k8s.io/v1", uncounted, "", `,"f:rules":{}`) + `]},
"rules":[{"verbs":["get","list","watch"],"apiGroups":[""],"resources":["configmaps","secrets","services","endpoints"]},{"verbs":["create","patch"],"apiGroups":["","events.k8s.io"],"resources":["events"]},{"verbs":["get","create","update","patch"],"apiGroups":["coordination.k8s.io"],"resources":["leases"]},{"verbs":["get","list","watch","update","patch"],"apiGroups":["<<team>>.example.com"],"resources":["<<word>>s","<<word>>s/status","<<word>>s/finalizers"]}]}`
}

// Secrets: credentials of an application, the certificate of a host, a release of Helm (its chart, compressed).
func secretTexts() templates {
	return templates{
		{5, compact(head("Secret", "v1", uncounted, "", `,"f:data":{".":{},"f:password":{},"f:token":{},"f:url":{},"f:username":{}},"f:type":{}`) + `]},"data":{"password":"<<base64:24>>","token":"<<base64:180>>","url":"<<base64:90>>","username":"<<base64:12>>"},"type":"Opaque"}`)},
		{3, compact(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"<<name>>","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>","creationTimestamp":"<<created>>","labels":{"controller.cert-manager.io/fao":"true"},
"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>","cert-manager.io/alt-names":"<<name>>.example.com","cert-manager.io/certificate-name":"<<app>>-tls","cert-manager.io/common-name":"<<name>>.example.com","cert-manager.io/ip-sans":"","cert-manager.io/issuer-group":"","cert-manager.io/issuer-kind":"ClusterIssuer","cert-manager.io/issuer-name":"letsencrypt","cert-manager.io/uri-sans":""},
"managedFields":[{"manager":"cert-manager-certificates-issuing","operation":"Apply","apiVersion":"v1","time":"<<created>>","fieldsType":"FieldsV1","fieldsV1":{"f:data":{"f:tls.crt":{},"f:tls.key":{}},"f:metadata":{"f:annotations":{"f:cert-manager.io/alt-names":{},"f:cert-manager.io/certificate-name":{},"f:cert-manager.io/common-name":{},"f:cert-manager.io/ip-sans":{},"f:cert-manager.io/issuer-group":{},"f:cert-manager.io/issuer-kind":{},"f:cert-manager.io/issuer-name":{},"f:cert-manager.io/uri-sans":{}},"f:labels":{"f:controller.cert-manager.io/fao":{}}},"f:type":{}}}]},
"data":{"tls.crt":"<<base64:3600>>","tls.key":"<<base64:1700>>"},"type":"kubernetes.io/tls"}`)},
		{2, compact(`{"kind":"Secret","apiVersion":"v1","metadata":{"name":"<<name>>","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>","creationTimestamp":"<<created>>","labels":{"modifiedAt":"<<n>>","name":"<<app>>","owner":"helm","status":"deployed","version":"<<small>>"},"annotations":{"bench.steersman.dev/sent-at":"<<stamp>>"},
"managedFields":[{"manager":"helm","operation":"Update","apiVersion":"v1","time":"<<created>>","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:release":{}},"f:metadata":{"f:labels":{".":{},"f:modifiedAt":{},"f:name":{},"f:owner":{},"f:status":{},"f:version":{}}},"f:type":{}}}]},"data":{"release":"<<base64:6000>>"},"type":"helm.sh/release.v1"}`)},
	}
}

// ConfigMaps of ordinary size: a configuration file or three, the certificate authority that every namespace has.
func configMapTexts() templates {
	file := func(name, size string) string { return `"` + name + `":"<<lines:` + size + `>>"` }
	return templates{
		{5, compact(head("ConfigMap", "v1", uncounted, "", `,"f:data":{".":{},"f:app.properties":{}}`) + `]},"data":{` + file("app.properties", "900") + `}}`)},
		{3, compact(head("ConfigMap", "v1", uncounted, "", `,"f:data":{".":{},"f:app.properties":{},"f:logging.properties":{},"f:routes.properties":{}}`) + `]},"data":{` + file("app.properties", "3000") + `,` + file("logging.properties", "600") + `,` + file("routes.properties", "3000") + `}}`)},
		{2, compact(`{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"<<name>>","namespace":"<<ns>>","uid":"<<uid>>","resourceVersion":"<<version>>","creationTimestamp":"<<created>>","annotations":{"bench.steersman.dev/sent-at":"<<stamp>>","kubernetes.io/description":"Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters."},
"managedFields":[{"manager":"kube-controller-manager","operation":"Update","apiVersion":"v1","time":"<<created>>","fieldsType":"FieldsV1","fieldsV1":{"f:data":{".":{},"f:ca.crt":{}},"f:metadata":{"f:annotations":{".":{},"f:kubernetes.io/description":{}}}}}]},"data":{"ca.crt":"-----BEGIN CERTIFICATE-----\n<<base64:1100>>\n-----END CERTIFICATE-----\n"}}`)},
	}
}

// compact drops the line breaks and indentation of a template; it leaves what stands inside a line alone.
func compact(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimSpace(line))
	}
	return strings.NewReplacer("<<version>>", version, "<<generation>>", generation, "<<stamp>>", noTime).Replace(b.String())
}
