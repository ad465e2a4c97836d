// The command lines with which a job is handed to its scheduler, asked about, stopped and removed:
// words for the scheduler's own programs, which no shell reads.
#pragma once
#include "launch/jobs/foreign_program.h"
#include "launch/jobs/job_record.h"

bool job_is_slurm(const job_record *record);
// Names the program that hands the job over: "kubectl" or "sbatch".
const char *job_program(const job_record *record);
// kubectl, with the namespace of the job and a limit for each of its requests.
program_words job_kubectl(arena *a, const job_record *record);
// Hands the files in `dir` over; `only_test`: asks whether they would be taken.
program_words job_submit_words(arena *a, const job_record *record, const char *dir, bool only_test);
// Prints the state of the job, for job_state_of_squeue or _object.
program_words job_ask_words(arena *a, const job_record *record);
// Prints its pods as JSON, for job_state_add_pods.
program_words job_pods_words(arena *a, const job_record *record);
// Prints the last lines that the pod has written.
program_words job_logs_words(arena *a, const job_record *record, const char *pod_name, int n_lines);
// Prints a file of a pod that runs.
program_words job_cat_words(arena *a, const job_record *record, const char *pod_name,
        const char *path);
// Asks the ranks of a running job of Slurm to save and end; `id`: its number now.
program_words job_save_words(const char *id);
// Ends the job: of Slurm at once, of Kubernetes within the grace of its pods, for a save.
program_words job_end_words(arena *a, const job_record *record, const char *id);
// Prints the names of all objects that were made of the job's files and have its label, one a line.
program_words job_objects_words(arena *a, const job_record *record);
enum { MAX_JOB_OBJECTS = 8 };
// Returns the types and names of the objects that the job's files and --submit make:
// "configmap/NAME-config".
const char *const *job_objects(arena *a, const job_record *record, int *n);
// Removes one of them.
program_words job_remove_words(arena *a, const job_record *record, const char *object);
