// The graphs of a rank's programs, by stage.
#include "search/step_work.h"

#include "programs/stages.h"

step_work step_work_new(arena *a, const run_config *cfg) {
    const int ranks = (int)cfg->pipeline_parallel,
              n = ranks > 1 ? ranks * stages_shape(cfg).chunks : 1;
    return (step_work){.n_stages = n,
            .forward = ARENA_ARRAY(a, work, n),
            .backward = ARENA_ARRAY(a, work, n)};
}

void step_work_take(const programs *p, step_work *to) {
    work update = {.bytes = 0};
    if (!p->n_stages) work_add_graph(p->step_graph, &to->forward[0], &to->backward[0]);
    for (int v = 0; v < p->n_stages; v++) {
        const pipeline_task task = {.chunk = v};
        const int stage = pipeline_stage(&p->schedule.shape,
                mesh_place(&p->layout.mesh, (int)p->held.c->rank, AXIS_PIPELINE), &task);
        for (int cut = 0; cut < N_CUTS; cut++)
            if (p->stage[v].graph[cut])
                work_add_graph(p->stage[v].graph[cut], &to->forward[stage], &to->backward[stage]);
    }
    to->boundary_bytes = (double)p->message_bytes;
    work_add_graph(p->update_graph, &update, &update);
    if (update.bytes >= to->update.bytes) to->update = update;
}
