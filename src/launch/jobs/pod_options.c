// A table of options with the form of each value.
#include "launch/jobs/pod_options.h"

#include <string.h>

#include "base/str.h"
#include "launch/jobs/job_names.h"
#include "launch/jobs/pod.h"

const char *const pod_option_names[N_POD_OPTIONS] = {"--env", "--secret-env", "--label",
        "--annotation", "--toleration", "--node-selector", "--image-pull-secret",
        "--priority-class", "--service-account"};

static const char *const forms[N_POD_OPTIONS] = {"NAME=VALUE", "NAME=SECRET:KEY", "KEY=VALUE",
        "KEY=VALUE", "KEY[=VALUE][:EFFECT], an effect NoSchedule, PreferNoSchedule or NoExecute",
        "KEY=VALUE", "the name of a Secret", "the name of a PriorityClass",
        "the name of a ServiceAccount"};

// Returns whether drover or an operator uses the label to find the objects of a job.
static bool is_own_label(const char *key) {
    return str_starts(key, "app.kubernetes.io/") || strcmp(key, KUEUE_LABEL) == 0 ||
           strstr(key, "kubeflow.org/") || strstr(key, "volcano.sh/") || strstr(key, "ray.io/");
}

static bool is_variable(const char *name) {
    const size_t n =
            strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");
    return *name && !name[n] && !(*name >= '0' && *name <= '9');
}

static bool is_effect(const char *text) {
    return STR_ONE_OF(text, "NoSchedule", "PreferNoSchedule", "NoExecute");
}

// Cuts a text at the first `by` and returns the rest; NULL: it has none.
static const char *cut(char *text, char by) {
    char *mark = strchr(text, by);
    if (!mark) return NULL;
    *mark = 0;
    return mark + 1;
}

static pod_item split(arena *a, pod_option option, const char *text) {
    char *copy = arena_strdup(a, text);
    pod_item item = {.name = copy};
    if (option == POD_TOLERATION) item.more = cut(copy, ':');
    if (option < POD_PULL_SECRET) item.value = cut(copy, '=');
    if (option == POD_SECRET_ENV && item.value) {
        char *secret = arena_strdup(a, item.value);
        item.more = cut(secret, ':');
        item.value = secret;
    }
    return item;
}

// Unlike other names, a label value may be empty.
static bool is_label_value(const char *text) {
    return text && (!*text || name_is_label(text));
}

static bool has_form(pod_option option, const pod_item *item) {
    switch (option) {
    case POD_ENV:
        return is_variable(item->name) && item->value && name_is_text(item->value);
    case POD_SECRET_ENV:
        return is_variable(item->name) && item->value && item->more &&
               name_is_dns_subdomain(item->value) && name_is_label(item->more);
    case POD_LABEL:
        return name_is_label_key(item->name) && is_label_value(item->value) &&
               !is_own_label(item->name);
    case POD_ANNOTATION:
        return name_is_label_key(item->name) && item->value && name_is_text(item->value);
    case POD_NODE_SELECTOR:
        return name_is_label_key(item->name) && is_label_value(item->value);
    case POD_TOLERATION:
        return name_is_label_key(item->name) && (!item->value || is_label_value(item->value)) &&
               (!item->more || is_effect(item->more));
    case POD_PULL_SECRET:
    case POD_PRIORITY_CLASS:
    case POD_SERVICE_ACCOUNT:
    case N_POD_OPTIONS:
        break;
    }
    return name_is_dns_subdomain(item->name);
}

bool pod_options_have(const pod_options *self, pod_option option, const char *name) {
    for (int i = 0; i < self->n[option]; i++)
        if (strcmp(self->items[option][i].name, name) == 0) return true;
    return false;
}

bool pod_options_set_variable(const pod_options *self, const char *name) {
    return pod_options_have(self, POD_ENV, name) || pod_options_have(self, POD_SECRET_ENV, name);
}

drv_status pod_options_take(arena *a, pod_options *self, pod_option option,
        const char *const *values, int n) {
    pod_item *list = ARENA_ARRAY(a, pod_item, n);
    for (int i = 0; i < n; i++) {
        list[i] = split(a, option, values[i]);
        if (!has_form(option, &list[i]))
            return drv_fail(DRV_E_USAGE, "%s: \"%s\", expected %s%s", pod_option_names[option],
                    values[i], forms[option],
                    option == POD_LABEL ? ", and no label of drover or an operator" : "");
        for (int k = 0; k < i && option != POD_TOLERATION; k++)
            if (strcmp(list[k].name, list[i].name) == 0)
                return drv_fail(DRV_E_USAGE, "%s: \"%s\" is given twice, expected once",
                        pod_option_names[option], list[i].name);
        if (option == POD_SECRET_ENV && pod_options_set_variable(self, list[i].name))
            return drv_fail(DRV_E_USAGE, "%s: \"%s\" is given by --env, too, expected once",
                    pod_option_names[option], list[i].name);
    }
    self->items[option] = list;
    self->n[option] = n;
    return DRV_OK;
}

void pod_options_pairs(yaml_writer *w, const pod_options *self, pod_option option) {
    for (int i = 0; i < self->n[option]; i++)
        yaml_text(w, self->items[option][i].name, self->items[option][i].value);
}

void pod_options_tolerations(yaml_writer *w, const pod_options *self) {
    for (int i = 0; i < self->n[POD_TOLERATION]; i++) {
        const pod_item *item = &self->items[POD_TOLERATION][i];
        yaml_map(w, NULL);
        yaml_text(w, "key", item->name);
        yaml_text(w, "operator", item->value ? "Equal" : "Exists");
        if (item->value) yaml_text(w, "value", item->value);
        if (item->more) yaml_text(w, "effect", item->more);
        yaml_map_end(w);
    }
}

void pod_options_names(yaml_writer *w, const pod_options *self) {
    if (self->n[POD_SERVICE_ACCOUNT])
        yaml_text(w, "serviceAccountName", self->items[POD_SERVICE_ACCOUNT][0].name);
    if (self->n[POD_PRIORITY_CLASS])
        yaml_text(w, "priorityClassName", self->items[POD_PRIORITY_CLASS][0].name);
    if (!self->n[POD_PULL_SECRET]) return;
    yaml_list(w, "imagePullSecrets");
    for (int i = 0; i < self->n[POD_PULL_SECRET]; i++)
        yaml_put(w, "[{name: \"%s\"}]", self->items[POD_PULL_SECRET][i].name);
    yaml_list_end(w);
}

void pod_options_variables(yaml_writer *w, arena *a, const pod_options *self) {
    for (int i = 0; i < self->n[POD_ENV]; i++) {
        yaml_map(w, NULL);
        yaml_text(w, "name", self->items[POD_ENV][i].name);
        yaml_text(w, "value", pod_word(a, self->items[POD_ENV][i].value));
        yaml_map_end(w);
    }
    for (int i = 0; i < self->n[POD_SECRET_ENV]; i++) {
        const pod_item *item = &self->items[POD_SECRET_ENV][i];
        yaml_map(w, NULL);
        yaml_text(w, "name", item->name);
        yaml_map(w, "valueFrom"), yaml_map(w, "secretKeyRef");
        yaml_text(w, "name", item->value);
        yaml_text(w, "key", item->more);
        yaml_map_end(w), yaml_map_end(w);
        yaml_map_end(w);
    }
}
