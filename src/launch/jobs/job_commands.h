// The command lines that submit a job to its scheduler, ask for its state, stop and remove it:
// lists of words for the scheduler's own programs, which no shell reads.
#pragma once
#include "launch/jobs/foreign_program.h"
#include "launch/jobs/job_record.h"

bool job_is_slurm(const job_record *record);
// Names the program that submits the job: "kubectl" or "sbatch".
const char *job_program(const job_record *record);
// Calls kubectl with the job's namespace.
program_words job_kubectl(const job_record *record);
// Submits the files in `dir`; `only_test`: asks whether the scheduler would accept them.
program_words job_submit_command(arena *a, const job_record *record, const char *dir,
        bool only_test);
// Prints the state of the job, for job_state_of_squeue or job_state_of_object.
program_words job_ask_command(const job_record *record);
// Prints its pods as JSON, for job_state_add_pods.
program_words job_pods_command(arena *a, const job_record *record);
// Prints the last lines that the pod has written.
program_words job_logs_command(arena *a, const job_record *record, const char *pod_name,
        int n_lines);
// Prints a file of a running pod.
program_words job_cat_command(const job_record *record, const char *pod_name, const char *path);
// Asks the ranks of a running Slurm job to save and end; `id`: its present number.
program_words job_save_command(const char *id);
// Ends the job: in Slurm at once, in Kubernetes within the grace period of its pods, for a save.
program_words job_end_command(const job_record *record, const char *id);
// Prints the names of all objects from the job's files that have its label, one a line.
program_words job_objects_command(arena *a, const job_record *record);
enum { MAX_JOB_OBJECTS = 8 };
// Returns the types and names of the objects that the job's files and --submit create:
// "configmap/NAME-config".
const char *const *job_objects(arena *a, const job_record *record, int *n);
// Removes one of these objects.
program_words job_remove_command(const job_record *record, const char *object);
