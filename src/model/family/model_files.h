// Names of files in a model's folder that several folders of the sources know.
#pragma once

// The chat template of conversations with tools, the one file of a model in a folder below its own.
#define TOOL_TEMPLATE_FILE "additional_chat_templates/tool_use.jinja"
