// Discovery of nodes: a row for each launcher with the variables that it sets, taken from the
// sources of the operators and from runs under Slurm and mpirun; and what is refused, by name.
#include "harness.h"

#include "launch/nodes.h"

enum { MAX_VARIABLES = 24 };

typedef struct launcher_row {
    const char *launcher;
    const char *environment[MAX_VARIABLES];
    // Expected. rank -1: the launcher says none.
    int rank, nodes, ranks, tasks;
    const char *master;
    int port;
    const char *by, *job;
    int restarts;
    bool is_rank;
} launcher_row;

#define SLURM_STEP                                                                                 \
    "SLURM_JOB_ID=42", "SLURM_STEP_ID=0", "SLURM_NTASKS=4", "SLURM_STEP_NUM_NODES=4",              \
            "SLURM_NNODES=4", "SLURM_STEP_NODELIST=n[1-4]", "SLURM_LOCALID=0"
#define PYTORCH_JOB                                                                                \
    "MASTER_ADDR=job-master-0", "MASTER_PORT=23456", "PET_MASTER_ADDR=job-master-0",               \
            "PET_MASTER_PORT=23456", "PET_NNODES=4", "PET_NPROC_PER_NODE=8", "WORLD_SIZE=32"

static const launcher_row rows_known[] = {
        {"one process", {"HOME=/root"}, -1, 1, 0, 0, "", 0, NULL, "", 0, false},
        {"srun --mpi=pmix, a task a node",
                {SLURM_STEP, "SLURM_PROCID=2", "PMIX_RANK=2", "PMIX_NAMESPACE=slurm.pmix.42.0",
                        "SLURM_RESTART_COUNT=1"},
                2, 4, 0, 0, "n1", 15042, "SLURM_PROCID", "42", 1, false},
        {"srun --mpi=pmi2, a task a node",
                {SLURM_STEP, "SLURM_PROCID=3", "PMI_RANK=3", "PMI_SIZE=4", "PMI_FD=9"}, 3, 4, 0, 0,
                "n1", 15042, "SLURM_PROCID", "42", 0, false},
        {"srun --mpi=none, a task a node", {SLURM_STEP, "SLURM_PROCID=0"}, 0, 4, 0, 0, "n1", 15042,
                "SLURM_PROCID", "42", 0, false},
        {"srun, eight tasks on two nodes",
                {"SLURM_JOB_ID=7", "SLURM_STEP_ID=1", "SLURM_NTASKS=8", "SLURM_STEP_NUM_NODES=2",
                        "SLURM_PROCID=5", "SLURM_STEP_NODELIST=gpu-a,gpu-b"},
                1, 2, 0, 4, "gpu-a", 15007, "SLURM_PROCID", "7", 0, false},
        {"srun on a federation of clusters",
                {"SLURM_JOB_ID=4227858433", SLURM_STEP, "SLURM_PROCID=1"}, 1, 4, 0, 0, "n1", 23433,
                "SLURM_PROCID", "4227858433", 0, false},
        {"the shell of an interactive step: salloc -N 2 -n 8",
                {"SLURM_JOB_ID=7", "SLURM_STEP_ID=4294967290", "SLURM_PROCID=0", "SLURM_NTASKS=8",
                        "SLURM_NNODES=2", "SLURM_STEP_NUM_TASKS=1", "SLURM_STEP_NUM_NODES=1",
                        "SLURM_STEP_NODELIST=n1"},
                0, 1, 0, 0, "n1", 15007, "SLURM_PROCID", "7", 0, false},
        {"srun -n 2 in it",
                {"SLURM_JOB_ID=7", "SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=2",
                        "SLURM_NNODES=2", "SLURM_STEP_NUM_TASKS=2", "SLURM_STEP_NUM_NODES=2",
                        "SLURM_STEP_NODELIST=n[1-2]"},
                1, 2, 0, 0, "n1", 15007, "SLURM_PROCID", "7", 0, false},
        {"a batch script of Slurm",
                {"SLURM_JOB_ID=42", "SLURM_NTASKS=8", "SLURM_PROCID=0", "SLURM_NNODES=2"}, -1, 1, 0,
                0, "", 0, NULL, "42", 0, false},
        {"mpirun in an allocation",
                {"OMPI_COMM_WORLD_RANK=3", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_RANK=1",
                        "OMPI_COMM_WORLD_LOCAL_SIZE=2", "PMIX_RANK=3", "PMIX_NAMESPACE=1234",
                        "SLURM_PROCID=0", "SLURM_JOB_ID=42"},
                -1, 1, 0, 0, "", 0, NULL, "42", 0, true},
        {"mpirun -n 1", {"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1"}, -1, 1, 0, 0, "", 0,
                NULL, "", 0, false},
        {"hydra", {"PMI_RANK=1", "PMI_SIZE=4", "PMI_FD=9", "MPI_LOCALRANKID=1"}, -1, 1, 0, 0, "", 0,
                NULL, "", 0, true},
        {"MPIJob's launcher",
                {"K_MPI_JOB_ROLE=launcher", "OMPI_MCA_orte_keep_fqdn_hostnames=true",
                        "OMPI_MCA_orte_default_hostfile=/etc/mpi/hostfile"},
                -1, 1, 0, 0, "", 0, NULL, "", 0, false},
        {"TrainJob torch",
                {"PET_NNODES=3", "PET_NPROC_PER_NODE=auto", "PET_NODE_RANK=2",
                        "PET_MASTER_ADDR=t-node-0-0.t", "PET_MASTER_PORT=29500",
                        "JOB_COMPLETION_INDEX=2"},
                2, 3, 0, 0, "t-node-0-0.t", 29500, "PET_NODE_RANK", "", 0, false},
        {"TrainJob plain",
                {"JOB_COMPLETION_INDEX=1", "DROVER_NODES=2", "DROVER_MASTER=a-0.a:29500",
                        "DROVER_RANKS_PER_NODE=32"},
                1, 2, 32, 0, "a-0.a", 29500, "JOB_COMPLETION_INDEX", "", 0, false},
        {"an indexed Job that says no more", {"JOB_COMPLETION_INDEX=0"}, 0, 1, 0, 0, "", 0,
                "JOB_COMPLETION_INDEX", "", 0, false},
        {"TrainJob jax",
                {"JAX_PROCESS_ID=1", "JAX_NUM_PROCESSES=4",
                        "JAX_COORDINATOR_ADDRESS=j-node-0-0.j:1234", "JOB_COMPLETION_INDEX=1"},
                1, 4, 0, 0, "j-node-0-0.j", 1234, "JAX_PROCESS_ID", "", 0, false},
        {"PyTorchJob, Master", {PYTORCH_JOB, "RANK=0", "PET_NODE_RANK=0"}, 0, 4, 8, 0,
                "job-master-0", 23456, "RANK", "", 0, false},
        {"PyTorchJob, Worker", {PYTORCH_JOB, "RANK=3", "PET_NODE_RANK=3"}, 3, 4, 8, 0,
                "job-master-0", 23456, "RANK", "", 0, false},
        {"torchrun's child",
                {"RANK=5", "WORLD_SIZE=8", "LOCAL_RANK=1", "LOCAL_WORLD_SIZE=4", "MASTER_ADDR=h0",
                        "MASTER_PORT=29400", "TORCHELASTIC_RUN_ID=r1",
                        "TORCHELASTIC_RESTART_COUNT=2"},
                1, 2, 0, 4, "h0", 29400, "RANK", "r1", 2, false},
        {"Volcano's plugin pytorch",
                {"RANK=1", "WORLD_SIZE=2", "MASTER_ADDR=v-master-0.v", "MASTER_PORT=23456",
                        "VC_TASK_INDEX=0", "VC_MASTER_NUM=1", "VC_WORKER_NUM=1",
                        "VC_MASTER_HOSTS=v-master-0.v", "VC_WORKER_HOSTS=v-worker-0.v"},
                1, 2, 0, 0, "v-master-0.v", 23456, "RANK", "", 0, false},
        {"Volcano's plugins svc and env",
                {"VC_TASK_INDEX=1", "VC_NODE_NUM=3",
                        "VC_NODE_HOSTS=v-node-0.v,v-node-1.v,v-node-2.v"},
                1, 3, 0, 0, "v-node-0.v", 0, "VC_TASK_INDEX", "", 0, false},
        {"Ray, by our own variables, on nodes of Slurm",
                {"DROVER_NODE_RANK=1", "DROVER_NODES=2", "DROVER_RANKS_PER_NODE=8",
                        "DROVER_MASTER=10.0.0.7:40000", "RAY_JOB_ID=0a", SLURM_STEP,
                        "SLURM_PROCID=0"},
                1, 2, 8, 0, "10.0.0.7", 40000, "DROVER_NODE_RANK", "42", 0, false},
        {"a port that node 0 takes and says, not one made of the job's number",
                {"DROVER_NODE_RANK=0", "DROVER_NODES=2", "DROVER_MASTER=10.0.0.7:0", SLURM_STEP,
                        "SLURM_PROCID=0"},
                0, 2, 0, 0, "10.0.0.7", 0, "DROVER_NODE_RANK", "42", 0, false},
        {"one node by our own variables",
                {"DROVER_NODE_RANK=0", "DROVER_NODES=1", "DROVER_MASTER=10.0.0.7"}, 0, 1, 0, 0,
                "10.0.0.7", 0, "DROVER_NODE_RANK", "", 0, false},
};

TEST(each_launcher_is_understood) {
    for (size_t i = 0; i < sizeof rows_known / sizeof *rows_known; i++) {
        const launcher_row *row = &rows_known[i];
        node_placement w = {0};
        if (nodes_discover(a, row->environment, &w) != DRV_OK)
            fail_msg("%s: %s", row->launcher, drv_message());
        const int rank = w.node_rank.by ? w.node_rank.value : -1;
        const char *words = nodes_words(a, &w, row->ranks);
        if (rank != row->rank || nodes_count(&w) != row->nodes ||
                w.ranks_per_node.value != row->ranks || w.tasks_per_node.value != row->tasks ||
                strcmp(w.master.value, row->master) != 0 || w.port.value != row->port ||
                strcmp(w.job.value, row->job) != 0 || w.restarts.value != row->restarts ||
                w.is_rank != row->is_rank || (row->by && !strstr(words, row->by)))
            fail_msg("%s: node %d of %s, %d ranks, %d tasks, master %s:%d, job %s, %d restarts%s",
                    row->launcher, rank, words, w.ranks_per_node.value, w.tasks_per_node.value,
                    w.master.value, w.port.value, w.job.value, w.restarts.value,
                    w.is_rank ? ", a rank" : "");
    }
}

// Never N runs of one: who is one of several and has no MPI is refused.
TEST(none_of_them_trains_alone) {
    for (size_t i = 0; i < sizeof rows_known / sizeof *rows_known; i++) {
        const launcher_row *row = &rows_known[i];
        const drv_status status = nodes_check_alone(row->environment, "my run.yaml");
        const bool several = row->nodes > 1 || row->rank > 0 || row->tasks > 1;
        if (status != (several ? DRV_E_USAGE : DRV_OK))
            fail_msg("%s: status %d: %s", row->launcher, status, drv_message());
        if (several && !strstr(drv_message(), "drover launch node 'my run.yaml'"))
            fail_msg("%s: %s", row->launcher, drv_message());
    }
}

TEST(what_cannot_be_is_refused_by_name) {
    static const struct {
        const char *environment[MAX_VARIABLES], *text;
    } cases[] = {
            {{"RANK=1"}, "RANK is set, but not WORLD_SIZE"},
            {{"WORLD_SIZE=2"}, "WORLD_SIZE is set, but not RANK"},
            {{"RANK=2", "WORLD_SIZE=2"}, "RANK is \"2\", expected a number from 0 to 1"},
            {{"RANK=x", "WORLD_SIZE=2"}, "RANK is \"x\""},
            {{"PET_NNODES=1:64", "PET_RDZV_ENDPOINT=etcd:2379", "PET_RDZV_BACKEND=etcd"},
                    "PET_NNODES is \"1:64\": elastic"},
            {{"PET_RDZV_ENDPOINT=etcd:2379", "PET_NNODES=4"}, "PET_RDZV_ENDPOINT"},
            {{"PET_NNODES=4"}, "PET_NNODES says 4 nodes, but not which of them"},
            {{"PET_NNODES=4", "PET_NODE_RANK=4"}, "PET_NODE_RANK is 4, expected less than the 4"},
            {{"PET_NNODES=4", "PET_NODE_RANK=1", "RANK=2", "WORLD_SIZE=4"},
                    "RANK is 2, but PET_NODE_RANK gives 1"},
            {{"PET_NNODES=4", "PET_NODE_RANK=1", "PET_NPROC_PER_NODE=8", "RANK=1", "WORLD_SIZE=4"},
                    "WORLD_SIZE is 4, but PET_NNODES and PET_NPROC_PER_NODE give 32"},
            {{"DROVER_NODES=2", "DROVER_NODE_RANK=0", "JAX_NUM_PROCESSES=4", "JAX_PROCESS_ID=0"},
                    "DROVER_NODES is 2, but JAX_NUM_PROCESSES gives 4"},
            {{"DROVER_NODES=2", "DROVER_NODE_RANK=0", "JOB_COMPLETION_INDEX=1"},
                    "DROVER_NODE_RANK is 0, but JOB_COMPLETION_INDEX gives 1"},
            {{"DROVER_NODES=0"}, "DROVER_NODES is \"0\""},
            {{"DROVER_NODES=99999999999999999999"}, "DROVER_NODES is \"9999"},
            {{"DROVER_NODES=2", "DROVER_NODE_RANK=1", "DROVER_MASTER=a b:1"},
                    "DROVER_MASTER is \"a b:1\""},
            {{"DROVER_NODES=2", "DROVER_NODE_RANK=1", "DROVER_MASTER=a:"},
                    "DROVER_MASTER is \"a:\""},
            {{"DROVER_NODES=2", "DROVER_NODE_RANK=1", "DROVER_MASTER=a:70000"}, "HOST:PORT"},
            {{"VC_TASK_INDEX=0", "VC_A_NUM=1", "VC_B_NUM=2"},
                    "VC_TASK_INDEX is the index in one of 2"},
            {{SLURM_STEP, "SLURM_PROCID=3", "RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=n1"},
                    "RANK is 1, but SLURM_PROCID gives 3"},
            {{SLURM_STEP, "SLURM_PROCID=1", "PET_NODE_RANK=1", "PET_NNODES=2"},
                    "PET_NNODES is 2, but SLURM_STEP_NUM_NODES gives 4"},
            {{"SLURM_STEP_ID=0", "SLURM_PROCID=4", "SLURM_NTASKS=4"}, "SLURM_PROCID is \"4\""},
            {{"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=4", "SLURM_STEP_NODELIST=$(x)"},
                    "SLURM_STEP_NODELIST is \"$(x)\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        node_placement w = {0};
        FAILS(nodes_discover(a, cases[i].environment, &w), DRV_E_USAGE, cases[i].text);
        assert_int_equal(nodes_check_alone(cases[i].environment, "run.yaml"), DRV_E_USAGE);
    }
}

TEST(options_go_first) {
    static const char *const environment[] = {"PET_NNODES=4", "PET_NODE_RANK=1", NULL};
    node_placement w = {.nodes = {2, "--nodes"}, .node_rank = {0, "--node-rank"}};
    OK(nodes_discover(a, environment, &w));
    assert_int_equal(w.nodes.value, 2);
    assert_string_equal(nodes_words(a, &w, 1), "2 nodes x 1 rank, by --node-rank");
}

TEST(the_first_host_of_a_list) {
    static const struct {
        const char *list, *first;
    } cases[] = {{"n1", "n1"}, {"n[1-4]", "n1"}, {"n[03-10,12],m1", "n03"}, {"a,b", "a"},
            {"rack[2,5]-gpu,x", "rack2-gpu"}, {"n[7]", "n7"}, {"", NULL}, {"n[", NULL},
            {"n[0-1]x[3-4],m", "n0x3"}, {"n]", NULL}, {"n[]", NULL}, {"n[1", NULL},
            {"n[x-2]", NULL}, {"a;b", NULL}, {"-x", NULL}, {",a", NULL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *first = nodes_first_host(a, cases[i].list);
        if (!first != !cases[i].first || (first && strcmp(first, cases[i].first) != 0))
            fail_msg("\"%s\": %s", cases[i].list, first ? first : "none");
    }
}

TEST(a_test_within_a_job_is_no_part_of_it) {
    OK(nodes_check_alone((const char *const *)environ, "run.yaml"));
}

int main(void) {
    static const char *const job[][2] = {{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "4"},
            {"PMIX_RANK", "2"}, {"OMPI_COMM_WORLD_SIZE", "4"}, {"RANK", "2"}, {"WORLD_SIZE", "4"}};
    for (size_t i = 0; i < sizeof job / sizeof *job; i++)
        setenv(job[i][0], job[i][1], 1);
    return tests_run();
}
